package machine

var plays = map[string]string{
	"all steps are done": `
		step a undo
		step b undo
		0s begin          -> running a=started call:action:a#1
		1s result done    -> running a=done b=ready action:b
		1s begin          -> running a=done b=started call:action:b#1
		2s result done    -> completed a=done b=done tell
		3s wake           -> completed a=done b=done
		3s retry          -> error it has ended`,

	"SG01 a failure at the third of four undoes two and one": `
		step a undo
		step b undo
		step c undo
		step d undo
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s begin          -> running a=done b=started call:action:b#1
		0s result done    -> running a=done b=done c=ready action:c
		0s begin          -> running a=done b=done c=started call:action:c#1
		0s result refused -> compensating a=done b=done/due c=refused undo:b
		0s begin          -> compensating a=done b=done/started c=refused call:undo:b#1
		0s result done    -> compensating a=done/due b=done/done c=refused undo:a
		0s begin          -> compensating a=done/started b=done/done c=refused call:undo:a#1
		0s result done    -> compensated a=done/done b=done/done c=refused tell`,

	"SG02 a failure at the first step leaves nothing to undo": `
		step a undo
		step b undo
		0s begin          -> running a=started call:action:a#1
		0s result refused -> compensated a=refused tell`,

	"SG06 a step that timed out is looked up and undone too": `
		step a undo
		step b undo check=10s n=1
		step c undo
		0s  begin          -> running a=started call:action:a#1
		0s  result done    -> running a=done b=ready action:b
		0s  begin          -> running a=done b=started call:action:b#1
		1s  result unknown -> running a=done b=unknown? check:b@2s
		1s  cancel         -> compensating a=done b=unknown? check:b@1s
		1s  begin          -> error no call is due
		2s  found b done   -> compensating a=done b=done/due undo:b
		2s  begin          -> compensating a=done b=done/started call:undo:b#1
		2s  result done    -> compensating a=done/due b=done/done undo:a`,

	"SG07 what is looked up and absent is not undone": `
		step a undo
		step b undo check=10s n=1
		0s  begin          -> running a=started call:action:a#1
		0s  result done    -> running a=done b=ready action:b
		0s  begin          -> running a=done b=started call:action:b#1
		1s  result unknown -> running a=done b=unknown? check:b@2s
		2s  found b absent -> running a=done b=unknown? check:b@11s
		11s found b absent -> compensating a=done/due b=refused undo:a`,

	"absent before settling is no proof, and at once after it is": `
		step a undo check=10s n=2
		0s  begin            -> running a=started call:action:a#1
		1s  result unknown   -> running a=unknown? check:a@2s
		10s found a absent   -> running a=unknown? check:a@11s
		11s found a absent   -> running a=ready action:a@11s
		11s begin            -> running a=started call:action:a#2
		12s result unknown   -> running a=unknown? check:a@14s
		22s found a absent   -> compensated a=refused tell`,

	"a look-up comes before the same key is sent again": `
		step a undo check=10s key=1h
		0s begin          -> running a=started call:action:a#1
		1s result unknown -> running a=unknown? check:a@2s
		2s found a absent -> running a=unknown? action:a@2s
		2s begin          -> running a=started? call:action:a#2
		3s result done    -> completed a=done tell`,

	"a key in doubt is not sent again when it is too old": `
		step a key=10s n=9
		0s  begin          -> running a=started call:action:a#1
		0s  result unknown -> running a=unknown? action:a@1s
		9s  begin          -> running a=started? call:action:a#2
		9s  result unknown -> held a=unknown? tell
		9s  mark_not_done a -> running a=ready action:a@9s
		9s  begin          -> running a=started call:action:a#3
		9s  result retry   -> running a=ready action:a@10s
		60s begin          -> running a=started call:action:a#4
		60s result done    -> completed a=done tell`,

	"a key that grew too old in the queue is not sent": `
		step a key=10s
		0s  begin          -> running a=started call:action:a#1
		0s  result unknown -> running a=unknown? action:a@1s
		10s begin          -> held a=unknown? tell
		11s retry          -> error find out and mark it
		11s mark_done a    -> completed a=done tell`,

	"after doubt a refusal and a retry prove nothing": `
		step a key=1h
		0s  begin          -> running a=started call:action:a#1
		0s  result unknown -> running a=unknown? action:a@1s
		1s  begin          -> running a=started? call:action:a#2
		1s  result refused -> running a=unknown? action:a@3s
		3s  begin          -> running a=started? call:action:a#3
		3s  result retry   -> held a=unknown? tell
		4s  retry          -> running a=unknown? action:a@4s
		4s  begin          -> running a=started? call:action:a#4
		4s  result done    -> completed a=done tell`,

	"an unknown outcome that nothing can tell is held": `
		step a undo
		step b undo
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s begin          -> running a=done b=started call:action:b#1
		0s result unknown -> held a=done b=unknown? tell
		1s retry          -> error find out
		1s cancel         -> held a=done b=unknown?
		1s mark_not_done b -> compensating a=done/due b=refused undo:a`,

	"an unknown step that may be undone so is": `
		step a undo
		step b undo absent
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s begin          -> running a=done b=started call:action:b#1
		0s result unknown -> compensating a=done b=unknown?/due undo:b@0s
		0s begin          -> compensating a=done b=unknown?/started call:undo:b#1
		0s result done    -> compensating a=done/due b=unknown?/done undo:a
		0s begin          -> compensating a=done/started b=unknown?/done call:undo:a#1
		0s result done    -> compensated a=done/done b=unknown?/done tell`,

	"SG08 an undo that fails is tried again": `
		step a undo n=4
		step b
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s begin          -> running a=done b=started call:action:b#1
		0s result refused -> compensating a=done/due b=refused undo:a
		0s begin          -> compensating a=done/started b=refused call:undo:a#1
		0s result unknown -> compensating a=done/due b=refused undo:a@1s
		1s begin          -> compensating a=done/started b=refused call:undo:a#2
		1s result retry   -> compensating a=done/due b=refused undo:a@3s
		3s begin          -> compensating a=done/started b=refused call:undo:a#3
		3s result unknown -> compensating a=done/due b=refused undo:a@7s
		7s begin          -> compensating a=done/started b=refused call:undo:a#4
		7s result done    -> compensated a=done/done b=refused tell`,

	"SG09 an undo that never works is stuck, and those before it wait": `
		step a undo
		step b undo n=2
		step c
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s begin          -> running a=done b=started call:action:b#1
		0s result done    -> running a=done b=done c=ready action:c
		0s begin          -> running a=done b=done c=started call:action:c#1
		0s result refused -> compensating a=done b=done/due c=refused undo:b
		0s begin          -> compensating a=done b=done/started c=refused call:undo:b#1
		0s result retry   -> compensating a=done b=done/due c=refused undo:b@1s
		1s begin          -> compensating a=done b=done/started c=refused call:undo:b#2
		1s result retry   -> stuck a=done b=done/stuck c=refused tell
		2s wake           -> stuck a=done b=done/stuck c=refused
		9s retry          -> compensating a=done b=done/due c=refused undo:b@9s
		9s begin          -> compensating a=done b=done/started c=refused call:undo:b#3
		9s result done    -> compensating a=done/due b=done/done c=refused undo:a`,

	"a refused undo is stuck at once, and can be marked or skipped": `
		step a undo
		step b undo
		step c
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s begin          -> running a=done b=started call:action:b#1
		0s result done    -> running a=done b=done c=ready action:c
		0s cancel         -> compensating a=done b=done/due undo:b
		0s begin          -> compensating a=done b=done/started call:undo:b#1
		0s skip b         -> error a call of step b is under way
		0s result refused -> stuck a=done b=done/stuck tell
		0s mark_done b    -> compensating a=done/due b=done/done undo:a
		0s begin          -> compensating a=done/started b=done/done call:undo:a#1
		0s result refused -> stuck a=done/stuck b=done/done tell
		0s cancel         -> error undone already
		0s skip a         -> closed a=done/skipped b=done/done tell`,

	"an undo in doubt is not sent when its key is too old": `
		step a undo undokey=10s n=9
		step b
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s cancel         -> compensating a=done/due undo:a
		0s begin          -> compensating a=done/started call:undo:a#1
		0s result unknown -> compensating a=done/due undo:a@1s
		10s begin         -> stuck a=done/stuck tell
		10s retry         -> error too old
		10s mark_not_done a -> compensating a=done/due undo:a@10s
		10s begin         -> compensating a=done/started call:undo:a#2
		10s result done   -> compensated a=done/done tell`,

	"SG12 a success after the end asks for one correction": `
		step a undo
		step b undo check=0s n=1
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s begin          -> running a=done b=started call:action:b#1
		0s result unknown -> running a=done b=unknown? check:b@1s
		1s found b absent -> compensating a=done/due b=refused undo:a
		1s begin          -> compensating a=done/started b=refused call:undo:a#1
		1s result done    -> compensated a=done/done b=refused tell
		9s signal a done  -> compensated a=done/done b=refused
		9s signal b done  -> compensated a=done/done b=refused correct:b
		9s correction b   -> compensating b=done/due undo:b
		9s begin          -> compensating b=done/started call:undo:b#1
		9s result done    -> compensated b=done/done tell`,

	"SG13 a success during the undoing is undone first": `
		step a undo
		step b undo check=0s n=1
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s begin          -> running a=done b=started call:action:b#1
		0s result unknown -> running a=done b=unknown? check:b@1s
		1s found b absent -> compensating a=done/due b=refused undo:a
		1s begin          -> compensating a=done/started b=refused call:undo:a#1
		1s signal b done  -> compensating a=done/started b=done/due undo:b
		2s result unknown -> compensating a=done/due b=done/due undo:b
		2s begin          -> compensating a=done/due b=done/started call:undo:b#1
		2s signal b done  -> compensating a=done/due b=done/started
		2s result done    -> compensating a=done/due b=done/done undo:a@3s
		3s begin          -> compensating a=done/started b=done/done call:undo:a#2
		3s result done    -> compensated a=done/done b=done/done tell`,

	"a success that becomes known in a stuck run is undone all the same": `
		step a undo
		step b undo check=0s n=1
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s begin          -> running a=done b=started call:action:b#1
		0s result unknown -> running a=done b=unknown? check:b@1s
		1s found b absent -> compensating a=done/due b=refused undo:a
		1s begin          -> compensating a=done/started b=refused call:undo:a#1
		1s result refused -> stuck a=done/stuck b=refused tell
		2s signal b done  -> compensating a=done/stuck b=done/due undo:b
		2s begin          -> compensating a=done/stuck b=done/started call:undo:b#1
		2s result done    -> stuck a=done/stuck b=done/done tell
		3s mark_done a    -> compensated a=done/done b=done/done tell`,

	"SG15 after the pivot a failure is tried again, never undone": `
		step a undo
		step b pivot
		step c undo n=2
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s cancel         -> compensating a=done/due undo:a`,

	"SG15 after the pivot the run is held and goes on": `
		deadline 10s
		step b pivot
		step c undo n=2
		0s begin          -> running b=started call:action:b#1
		0s cancel         -> error point of no return
		0s result done    -> running b=done c=ready action:c
		0s begin          -> running b=done c=started call:action:c#1
		0s result refused -> running b=done c=ready action:c@1s
		1s cancel         -> error point of no return
		10s wake          -> running b=done c=ready action:c@1s
		11s begin         -> running b=done c=started call:action:c#2
		11s result retry  -> held b=done c=refused tell
		12s retry         -> running b=done c=ready action:c@12s
		12s begin         -> running b=done c=started call:action:c#3
		12s result done   -> completed b=done c=done tell`,

	"a pivot that was refused is no pivot": `
		step a undo
		step b pivot
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s begin          -> running a=done b=started call:action:b#1
		0s result refused -> compensating a=done/due b=refused undo:a`,

	"SG16 what cannot be undone is not reported as undone": `
		step a undo
		step b irreversible
		step c n=1
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s begin          -> running a=done b=started call:action:b#1
		0s result done    -> running a=done b=done c=ready action:c
		0s begin          -> running a=done b=done c=started call:action:c#1
		0s result refused -> held a=done b=done c=refused tell
		1s retry          -> running a=done b=done c=ready action:c@1s
		1s begin          -> running a=done b=done c=started call:action:c#2
		1s result refused -> held a=done b=done c=refused tell
		2s cancel         -> held a=done b=done c=refused
		3s retry          -> error cannot be undone
		3s skip b         -> compensating a=done/due b=done/skipped c=refused undo:a
		3s begin          -> compensating a=done/started b=done/skipped c=refused call:undo:a#1
		3s result done    -> closed a=done/done b=done/skipped c=refused tell`,

	"SG19 at the deadline the step under way is resolved, then undone": `
		deadline 10s
		step a undo
		step b undo check=0s
		step c
		0s  begin          -> running a=started call:action:a#1
		0s  result done    -> running a=done b=ready action:b
		9s  begin          -> running a=done b=started call:action:b#1
		10s wake           -> compensating a=done b=started
		12s result unknown -> compensating a=done b=unknown? check:b@13s
		13s found b done   -> compensating a=done b=done/due undo:b`,

	"the deadline ends a pause at once": `
		deadline 10s
		step a undo
		step b
		0s  begin         -> running a=started call:action:a#1
		0s  result done   -> running a=done b=ready action:b
		9s  begin         -> running a=done b=started call:action:b#1
		9s  result retry after=1m -> running a=done b=ready action:b@1m9s
		9s  wake          -> running a=done b=ready action:b@1m9s
		10s wake          -> compensating a=done/due b=refused undo:a`,

	"SG21 the callee's wish is respected, within bounds": `
		step a undo n=5
		0s begin                  -> running a=started call:action:a#1
		0s result retry after=30s -> running a=ready action:a@30s
		30s begin                 -> running a=started call:action:a#2
		30s result retry after=1ms -> running a=ready action:a@32s
		32s begin                 -> running a=started call:action:a#3
		32s result retry after=99h -> running a=ready action:a@1h0m32s`,

	"a restart makes the call under way unknown": `
		step a undo check=10s
		0s begin          -> running a=started call:action:a#1
		5s restart        -> running a=unknown? check:a@5s
		5s stale a try=1 done -> completed a=done tell`,

	"a restart in an undo sends it again with the same number": `
		step a undo
		step b
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s cancel         -> compensating a=done/due undo:a
		0s begin          -> compensating a=done/started call:undo:a#1
		1s restart        -> compensating a=done/due undo:a@1s
		1s begin          -> compensating a=done/started call:undo:a#2
		1s result done    -> compensated a=done/done tell`,

	"an awaited step waits for its signal": `
		step a undo await
		step b
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=waiting
		1s retry          -> error waits for its signal
		2s signal a done  -> running a=done b=ready action:b
		3s signal a done  -> running a=done b=ready action:b`,

	"a signal before the reply is kept": `
		step a undo await
		step b
		0s signal a done  -> error has not been sent
		0s begin          -> running a=started call:action:a#1
		0s signal a done  -> running a=started
		0s signal b done  -> error has not been sent
		0s result done    -> running a=done b=ready action:b
		0s signal b done  -> error has not been sent`,

	"a second success that names something else is told of": `
		step a undo await
		step b
		0s begin               -> running a=started call:action:a#1
		0s result done         -> running a=waiting
		1s signal a done out=x -> running a=done b=ready action:b
		1s signal a done out=x -> running a=done b=ready action:b
		1s signal a done       -> running a=done b=ready action:b
		1s signal a done out=y -> running a=done b=ready action:b contradict:a
		2s begin               -> running a=done b=started call:action:b#1
		2s result done         -> completed a=done b=done tell
		3s signal a done out=x -> completed a=done b=done
		3s signal a done out=y -> completed a=done b=done contradict:a`,

	"a second success with other data is told of after the run was undone": `
		step a undo await
		step b
		0s begin               -> running a=started call:action:a#1
		0s result done         -> running a=waiting
		1s signal a done out=x -> running a=done b=ready action:b
		1s begin               -> running a=done b=started call:action:b#1
		1s result refused      -> compensating a=done/due b=refused undo:a
		1s begin               -> compensating a=done/started b=refused call:undo:a#1
		1s result done         -> compensated a=done/done b=refused tell
		3s signal a done out=x -> compensated a=done/done b=refused
		3s signal a done out=y -> compensated a=done/done b=refused contradict:a`,

	"behind the point of no return there is no deadline": `
		deadline 10s
		step a pivot
		step b undo
		0s  begin         -> running a=started call:action:a#1
		0s  result done   -> running a=done b=ready action:b
		0s  begin         -> running a=done b=started call:action:b#1
		0s  result retry  -> running a=done b=ready action:b@1s
		20s wake          -> running a=done b=ready action:b@1s`,

	"a signal during the call decides when the call ends": `
		step a undo await
		0s begin          -> running a=started call:action:a#1
		0s signal a done  -> running a=started
		0s result unknown -> completed a=done tell`,

	"a signal during a call that a restart cut off": `
		step a undo await
		0s begin          -> running a=started call:action:a#1
		0s signal a done  -> running a=started
		1s restart        -> completed a=done tell`,

	"a refusal by signal": `
		step a undo
		step b undo await
		0s begin            -> running a=started call:action:a#1
		0s result done      -> running a=done b=ready action:b
		0s begin            -> running a=done b=started call:action:b#1
		0s result done      -> running a=done b=waiting
		0s signal b refused -> compensating a=done/due b=refused undo:a
		1s signal b done    -> compensating a=done/due b=done/due undo:b`,

	"contradicting words hold the run": `
		step a undo await
		step b
		0s begin            -> running a=started call:action:a#1
		0s result done      -> running a=waiting
		0s signal a done    -> running a=done b=ready action:b
		0s signal a refused -> held a=done b=ready tell
		1s retry            -> running a=done b=ready action:b
		1s signal a refused -> held a=done b=ready tell
		1s mark_not_done a  -> compensated a=refused tell`,

	"after a contradiction a run that waits for another signal goes on": `
		step a undo await
		step b undo await
		0s begin            -> running a=started call:action:a#1
		0s result done      -> running a=waiting
		0s signal a done    -> running a=done b=ready action:b
		0s begin            -> running a=done b=started call:action:b#1
		0s signal a refused -> held a=done b=started tell
		0s retry            -> error a call of step b is under way
		1s result done      -> held a=done b=waiting
		1s retry            -> running a=done b=waiting
		1s signal b done    -> completed a=done b=done tell`,

	"a broken run goes on, and what is unknown stays so": `
		step a undo
		0s begin           -> running a=started call:action:a#1
		0s park            -> held a=started tell
		0s result unknown  -> held a=unknown? tell
		0s park            -> held a=unknown? tell
		0s retry           -> held a=unknown? tell
		0s mark_done a     -> completed a=done tell`,

	"a refusing reply against a signal holds the run": `
		step a undo await
		0s begin          -> running a=started call:action:a#1
		0s signal a done  -> running a=started
		0s result refused -> held a=unknown? tell
		1s mark_done a    -> completed a=done tell`,

	"a signal that does not come": `
		step a undo
		step b undo await=1m check=0s
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s begin          -> running a=done b=started call:action:b#1
		0s result done    -> running a=done b=waiting
		59s wake          -> running a=done b=waiting
		60s wake          -> running a=done b=unknown check:b@1m0s
		60s found b unknown -> running a=done b=unknown check:b@1m1s
		61s found b absent -> compensating a=done/due b=refused undo:a`,

	"a signal that does not come, and nothing can tell": `
		step a undo await=1m
		step b
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=waiting
		60s wake          -> held a=unknown tell
		70s signal a done -> running a=done b=ready action:b`,

	"a step that only waits": `
		step a undo
		step b noaction await=1m
		step c
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=waiting
		9s signal b done  -> running a=done b=done c=ready action:c`,

	"a step that only waits gives up": `
		step a undo
		step b noaction await=1m
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=waiting
		60s wake          -> compensating a=done/due b=refused undo:a`,

	"a step that only waited and was cancelled": `
		step a undo
		step b noaction await
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=waiting
		1s cancel         -> compensating a=done/due b=refused undo:a`,

	"the number of an undo rises only by proof": `
		step a undo absent await=1m
		step b
		0s  begin              -> running a=started call:action:a#1
		0s  result done        -> running a=waiting
		60s wake               -> compensating a=unknown/due undo:a@1m0s
		60s begin              -> compensating a=unknown/started call:undo:a#1
		61s result done        -> compensated a=unknown/done tell
		70s signal a done      -> compensated a=unknown/done correct:a
		70s correction a       -> held a=unknown? tell
		71s mark_done a        -> compensating a=done/due#2 undo:a@1m11s
		71s begin              -> compensating a=done/started#2 call:undo:a#2/2
		71s result done        -> compensated a=done/done#2 tell`,

	"a success that is proven to be later is undone with the next number": `
		step a undo absent await=1m
		step b
		0s  begin              -> running a=started call:action:a#1
		0s  result done        -> running a=waiting
		60s wake               -> compensating a=unknown/due undo:a@1m0s
		60s begin              -> compensating a=unknown/started call:undo:a#1
		61s result done        -> compensated a=unknown/done tell
		70s signal a done at=65s -> compensated a=unknown/done correct:a
		70s correction a at=65s  -> compensating a=done/due#2 undo:a@1m10s`,

	"a success during a blind undo is looked up after it": `
		step a undo absent check=0s await=1m n=1
		step b
		0s  begin              -> running a=started call:action:a#1
		0s  result done        -> running a=waiting
		60s wake               -> running a=unknown check:a@1m0s
		60s found a unknown    -> compensating a=unknown/due undo:a@1m0s
		60s begin              -> compensating a=unknown/started call:undo:a#1
		61s signal a done      -> compensating a=done/started
		62s result done        -> compensating a=unknown? check:a@1m2s
		62s found a done       -> held a=unknown? tell
		65s mark_done a        -> compensating a=done/due#2 undo:a@1m5s
		65s begin              -> compensating a=done/started#2 call:undo:a#2/2
		66s result done        -> compensated a=done/done#2 tell`,

	"the same word again is no proof that it happened again": `
		step a undo await
		step b
		0s  begin               -> running a=started call:action:a#1
		0s  result done         -> running a=waiting
		1s  signal a done at=3s -> running a=done b=ready action:b
		1s  begin               -> running a=done b=started call:action:b#1
		1s  result refused      -> compensating a=done/due b=refused undo:a
		1s  begin               -> compensating a=done/started b=refused call:undo:a#1
		2s  result done         -> compensated a=done/done b=refused tell
		2s  signal a done at=3s -> compensated a=done/done b=refused
		9s  signal a done at=3s -> compensated a=done/done b=refused
		9s  signal a done at=8s -> compensated a=done/done b=refused correct:a
		9s  correction a at=8s  -> compensating a=done/due#2 undo:a@9s
		9s  begin               -> compensating a=done/started#2 call:undo:a#2/2
		9s  result done         -> compensated a=done/done#2 tell
		11s signal a done at=8s -> compensated a=done/done#2`,

	"the same word again during the undo is no proof": `
		step a undo await
		step b
		step c undo
		step d
		0s  begin               -> running a=started call:action:a#1
		0s  result done         -> running a=waiting
		1s  signal a done at=3s -> running a=done b=ready action:b
		1s  begin               -> running a=done b=started call:action:b#1
		1s  result refused      -> compensating a=done/due b=refused undo:a
		1s  begin               -> compensating a=done/started b=refused call:undo:a#1
		2s  result retry        -> compensating a=done/due b=refused undo:a@3s
		4s  signal a done at=3s -> compensating a=done/due b=refused undo:a@3s`,

	"a clock that is ahead proves nothing": `
		step a undo absent await=1m n=1
		0s  begin                -> running a=started call:action:a#1
		0s  result done          -> running a=waiting
		60s wake                 -> compensating a=unknown/due undo:a@1m0s
		60s begin                -> compensating a=unknown/started call:undo:a#1
		61s result done          -> compensated a=unknown/done tell
		62s signal a done at=64s -> compensated a=unknown/done correct:a
		62s correction a at=64s  -> held a=unknown? tell
		70s signal a done at=64s -> held a=unknown?`,

	"a success during a blind undo that left nothing": `
		step a undo absent check=0s await=1m n=1
		step b
		0s  begin              -> running a=started call:action:a#1
		0s  result done        -> running a=waiting
		60s wake               -> running a=unknown check:a@1m0s
		60s found a unknown    -> compensating a=unknown/due undo:a@1m0s
		60s begin              -> compensating a=unknown/started call:undo:a#1
		61s signal a done      -> compensating a=done/started
		62s result done        -> compensating a=unknown? check:a@1m2s
		62s found a unknown    -> held a=unknown? tell
		63s mark_not_done a    -> compensated a=refused/done tell`,

	"close ends every run that has not ended": `
		step a undo
		0s begin  -> running a=started call:action:a#1
		0s close  -> closed a=started tell
		1s result done -> closed a=started contradict:a
		1s cancel -> error it has ended`,

	"skip does without a step": `
		step a undo n=1
		step b
		0s begin        -> running a=started call:action:a#1
		0s skip a       -> error a call of step a is under way
		0s result unknown -> held a=unknown? tell
		0s skip b       -> error not the one the run is at
		0s skip a       -> running a=skipped? b=ready action:b`,

	"after a restore a look-up comes before the first send": `
		restored -1s
		step a undo check=10s
		step b undo check=10s key=1h
		step c undo
		0s  found a absent    -> running a=unknown? check:a@9s
		9s  found a absent    -> running a=ready action:a@9s
		9s  begin             -> running a=started call:action:a#1
		9s  result done       -> running a=done b=unknown? check:b
		9s  found b done      -> running a=done b=done c=ready action:c
		9s  begin             -> running a=done b=done c=started call:action:c#1
		9s  result refused    -> compensating a=done b=done/due c=refused undo:b`,

	"after a restore a look-up comes before a send that the copy was about to make": `
		step a undo check=10s
		0s  begin             -> running a=started call:action:a#1
		0s  result retry      -> running a=ready action:a@1s
		restored 2s
		2s  restart           -> running a=unknown? check:a@1s
		2s  found a absent    -> running a=unknown? check:a@12s
		12s found a absent    -> running a=ready action:a@12s
		12s begin             -> running a=started call:action:a#2
		12s result retry      -> running a=ready action:a@14s
		14s begin             -> running a=started call:action:a#3
		14s result done       -> completed a=done tell`,

	"after a restore a word may be about what the copy does not know": `
		restored -1s
		step a undo await
		0s  signal a done     -> running a=ready action:a
		0s  begin             -> running a=started call:action:a#1
		0s  result done       -> completed a=done tell`,

	"long after a restore a word about what was not sent is none": `
		restored -24h
		step a undo await
		0s  signal a done     -> error has not been sent`,

	"long after a restore a send is a send": `
		restored -24h
		step a undo check=10s
		0s  begin             -> running a=started call:action:a#1
		0s  result done       -> completed a=done tell`,

	"cancel takes effect at once during a pause": `
		step a undo
		step b undo key=1h
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s begin          -> running a=done b=started call:action:b#1
		0s result retry after=1m -> running a=done b=ready action:b@1m0s
		1s cancel         -> compensating a=done/due b=refused undo:a`,

	"cancel during a pause in doubt resolves first": `
		step a undo
		step b undo key=1h
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s begin          -> running a=done b=started call:action:b#1
		0s result unknown after=1m -> running a=done b=unknown? action:b@1m0s
		1s cancel         -> compensating a=done b=unknown? action:b@1s
		1s begin          -> compensating a=done b=started? call:action:b#2
		1s result done    -> compensating a=done b=done/due undo:b`,
}
