package invariant_test

import (
	"context"
	"fmt"

	"onced/kv"
	"onced/kv/invariant"
	"onced/kv/memkv"
)

type account struct {
	Balance int64 `json:"balance"`
}

var accounts = kv.NewTable[account]("shop.account", 1)

func Example() {
	rule := invariant.Rule{
		Name: "shop.balance",
		Why:  "An account below zero has paid out money that nobody paid in.",
		Check: invariant.Rows(accounts, func(_ kv.Reader, row kv.Row[account]) ([]string, error) {
			if row.Value.Balance < 0 {
				return []string{fmt.Sprintf("balance is %d", row.Value.Balance)}, nil
			}
			return nil, nil
		}),
	}
	ctx := context.Background()
	store := memkv.New(memkv.Options{})
	defer store.Close()
	err := store.Update(ctx, func(w kv.Writer) error {
		return accounts.Put(w, kv.Key{}.Uint(7), account{Balance: -5})
	})
	if err != nil {
		panic(err)
	}
	report, err := invariant.Check(ctx, store, rule)
	fmt.Println(report, err)
	// Output: shop.balance: shop.account row 030000000000000007: balance is -5 <nil>
}
