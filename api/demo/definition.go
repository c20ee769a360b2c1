package demo

import (
	"fmt"
	"strings"

	"onced/api/demo/callee"
)

// definitionName is what the saga is called.
const definitionName = "checkout"

// definitionText is the checkout: an ordinary definition. BASE stands for the address
// of the services.
const definitionText = `# The checkout of the demo; written by onced demo at each start.
name: checkout
title: Checkout
input:
  order: string
  customer: string
  points: int
  voucher: string
  amount: decimal
steps:

# This service honours idempotency keys, so a call in doubt is sent again. Giving points
# back that were never spent does no harm.
- name: loyalty
  call:
    url: BASE/loyalty/spend
    body:
      order: "${input.order}"
      reference: "${input.order}.${run.round}"
      customer: "${input.customer}"
      points: "${input.points}"
    timeout: TIMEOUT
  undo:
    url: BASE/loyalty/return
    body: {order: "${input.order}", reference: "${input.order}.${run.round}"}
    timeout: TIMEOUT
  repeatable: 24h
  undo_when_absent: safe
  settles_after: SETTLES
  retry: RETRY

# This one ignores keys: each call redeems. What a call in doubt has done is looked up.
- name: voucher
  call:
    url: BASE/voucher/redeem
    body:
      order: "${input.order}"
      reference: "${input.order}.${run.round}"
      voucher: "${input.voucher}"
    timeout: TIMEOUT
  undo:
    url: BASE/voucher/release
    body: {order: "${input.order}", reference: "${input.order}.${run.round}"}
    timeout: TIMEOUT
  check:
    method: GET
    url: BASE/voucher/redemptions/${input.order}.${run.round}
    timeout: TIMEOUT
    done: "${reply.status == 200 && reply.body.status == 'done'}"
    refused: "${reply.status == 200 && reply.body.status == 'failed'}"
    absent: "${reply.status == 404}"
  settles_after: SETTLES
  retry: RETRY

# The gateway ignores keys too. It answers 202 and calls back when it has charged. What
# it does not say in time is looked up.
- name: charge
  call:
    url: BASE/gateway/charges
    body:
      order: "${input.order}"
      reference: "${input.order}.${run.round}"
      amount: {amount: "${input.amount}", asset: USD}
      callback_url: "${callback_url}"
    timeout: TIMEOUT
    outcomes: {done: [202]}
  undo:
    url: BASE/gateway/refunds
    body: {order: "${input.order}", reference: "${input.order}.${run.round}"}
    timeout: TIMEOUT
  check:
    method: GET
    url: BASE/gateway/charges/${input.order}.${run.round}
    timeout: TIMEOUT
    done: "${reply.status == 200 && reply.body.status == 'done'}"
    refused: "${reply.status == 200 && reply.body.status == 'failed'}"
    absent: "${reply.status == 404}"
    output: {id: "${reply.body.id}"}
  await:
    for: AWAIT
    done: "${signal.body.status == 'done'}"
    refused: "${signal.body.status == 'failed'}"
    output: {id: "${signal.body.id}"}
  settles_after: SETTLES
  retry: RETRY

# The order is made last, so nothing has to take it back. Which charge it is for, the
# callback has said; or the look-up, when none came.
- name: order
  call:
    url: BASE/orders
    body:
      order: "${input.order}"
      reference: "${input.order}.${run.round}"
      charge: "${steps.charge.signal.id ?? steps.charge.output.id}"
    timeout: TIMEOUT
  check:
    method: GET
    url: BASE/orders/${input.order}.${run.round}
    timeout: TIMEOUT
    done: "${reply.status == 200 && reply.body.status == 'done'}"
    refused: "${reply.status == 200 && reply.body.status == 'failed'}"
    absent: "${reply.status == 404}"
  repeatable: 24h
  nothing_to_undo: true
  settles_after: SETTLES
  retry: RETRY
`

// awaitFor is how long a run waits for the callback of its charge before it looks the
// charge up, in milliseconds.
const awaitFor = 2500

// definition is the checkout over services at an address.
func definition(base string) []byte {
	ms := func(n int64) string { return fmt.Sprintf("%dms", n) }
	return []byte(strings.NewReplacer("BASE", base, "TIMEOUT", ms(callee.CallTimeout.Milliseconds()),
		"SETTLES", ms(callee.SettlesAfter.Milliseconds()), "AWAIT", ms(awaitFor), "RETRY",
		"{attempts: 10, first: 300ms, most: 2s, undo_attempts: 12}").Replace(definitionText))
}
