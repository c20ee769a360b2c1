package machine

// hostile are plays in which the world does not keep to the usual order.
var hostile = map[string]string{
	"a success that is told again after a look-up found nothing is looked up again": `
		step a undo absent check=0s await=1m n=1
		step b
		0s  begin              -> running a=started call:action:a#1
		0s  result done        -> running a=waiting
		60s wake               -> running a=unknown check:a@1m0s
		60s found a unknown    -> compensating a=unknown/due undo:a@1m0s
		60s begin              -> compensating a=unknown/started call:undo:a#1
		61s signal a done      -> compensating a=done/started
		62s result done        -> compensating a=unknown? check:a@1m2s
		62s park               -> held a=unknown? tell
		62s found a absent     -> held a=refused/done
		63s signal a done      -> held a=unknown?
		64s retry              -> compensating a=unknown? check:a@1m4s
		64s found a absent     -> compensated a=refused/done tell`,

	"a success that is told again after a person said not done holds the run": `
		step a undo absent await=1m
		step b undo
		0s  begin              -> running a=started call:action:a#1
		0s  result done        -> running a=waiting
		60s wake               -> compensating a=unknown/due undo:a@1m0s
		60s begin              -> compensating a=unknown/started call:undo:a#1
		61s signal a done      -> compensating a=done/started
		62s result done        -> held a=unknown? tell
		62s signal a done      -> held a=unknown?
		63s mark_not_done a    -> compensated a=refused/done tell`,

	"the undo of a step in doubt does not overtake its action": `
		step a undo
		step b undo absent settles=10s
		0s  begin          -> running a=started call:action:a#1
		0s  result done    -> running a=done b=ready action:b
		0s  begin          -> running a=done b=started call:action:b#1
		2s  result unknown -> compensating a=done b=unknown?/due undo:b@12s
		3s  retry          -> compensating a=done b=unknown?/due undo:b@12s
		11s begin          -> error no call is due
		12s begin sending  -> compensating a=done b=unknown?/due undo:b@22s
		22s begin          -> compensating a=done b=unknown?/started call:undo:b#1
		22s result retry   -> compensating a=done b=unknown?/due undo:b@23s
		23s begin          -> compensating a=done b=unknown?/started call:undo:b#2
		23s result done    -> compensating a=done/due b=unknown?/done undo:a`,

	"nor at the deadline, when it is cancelled, after a crash or look-ups that do not tell": `
		deadline 5s
		step a undo absent check=10s n=1
		0s  begin           -> running a=started call:action:a#1
		5s  wake            -> compensating a=started
		6s  cancel          -> error undone already
		8s  restart         -> compensating a=unknown? check:a@8s
		9s  found a unknown -> compensating a=unknown?/due undo:a@18s`,

	"what is known to have happened is undone at once": `
		step a undo absent settles=1h
		0s  begin          -> running a=started call:action:a#1
		2s  result unknown -> compensating a=unknown?/due undo:a@1h0m2s
		3s  signal a done  -> compensating a=done/due undo:a@2s`,

	"what was accepted late can still come": `
		step a undo absent settles=10s await=1m
		0s  begin          -> running a=started call:action:a#1
		9s  result done    -> running a=waiting
		12s cancel         -> compensating a=unknown/due undo:a@19s`,

	"an undone run with a skipped step that may have happened is closed": `
		step a undo n=1
		step b undo n=1
		0s begin          -> running a=started call:action:a#1
		0s result unknown -> held a=unknown? tell
		1s skip a         -> running a=skipped? b=ready action:b
		1s begin          -> running a=skipped? b=started call:action:b#1
		1s result refused -> closed a=skipped? b=refused tell`,

	"an undone run with a skipped step that was accepted is closed": `
		step a undo await
		step b undo n=1
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=waiting
		1s skip a         -> running a=skipped? b=ready action:b
		1s cancel         -> closed a=skipped? tell`,

	"an undone run with a skipped step that never happened is undone": `
		step a undo n=1
		step b undo n=1
		0s skip a         -> running a=skipped b=ready action:b
		1s cancel         -> compensated a=skipped tell`,

	"a skipped step that turns out to have happened is undone": `
		step a undo n=1
		step b undo n=1
		0s begin          -> running a=started call:action:a#1
		0s result unknown -> held a=unknown? tell
		1s skip a         -> running a=skipped? b=ready action:b
		2s signal a done  -> running a=done b=ready action:b
		3s cancel         -> compensating a=done/due undo:a`,

	"after a deadline that cannot be kept, a run goes on waiting": `
		deadline 10s
		step a irreversible
		step b undo await
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s begin          -> running a=done b=started call:action:b#1
		0s result done    -> running a=done b=waiting
		10s wake          -> held a=done b=waiting tell
		11s retry         -> running a=done b=waiting
		12s signal b done -> completed a=done b=done tell`,

	"a success that becomes known ends the wait for it": `
		step a pivot
		step b undo n=1
		step c
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s begin          -> running a=done b=started call:action:b#1
		0s result refused -> held a=done b=refused tell
		1s signal b done  -> running a=done b=done c=ready action:c`,

	"a look-up that is gone after a restart holds the run": `
		step a undo check=10s
		0s begin          -> running a=started call:action:a#1
		0s result unknown -> running a=unknown? check:a@1s
		change a undo
		1s wake           -> held a=unknown? tell
		2s mark_done a    -> completed a=done tell`,

	"a look-up that is gone after a restart makes room for the key": `
		step a undo check=10s
		0s begin          -> running a=started call:action:a#1
		0s result unknown -> running a=unknown? check:a@1s
		change a undo key=1h
		1s wake           -> running a=unknown? action:a@1s`,

	"a bound that is gone after a restart still counts for what began with it": `
		step a undo
		step b undo await=1m check=0s
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s begin          -> running a=done b=started call:action:b#1
		0s result done    -> running a=done b=waiting
		change b undo await check=0s
		60s wake          -> running a=done b=unknown check:b@1m0s`,

	"a run that goes on after all is not said to have failed": `
		step a undo
		step b irreversible
		step c n=1
		0s begin          -> running a=started call:action:a#1
		0s result done    -> running a=done b=ready action:b
		0s begin          -> running a=done b=started call:action:b#1
		0s result done    -> running a=done b=done c=ready action:c
		0s begin          -> running a=done b=done c=started call:action:c#1
		0s result refused -> held a=done b=done c=refused tell
		1s skip c         -> completed a=done b=done c=skipped tell because none`,

	"a look-up that finds nothing while a call goes on is no proof": `
		step a undo check=10s n=2
		0s begin                 -> running a=started call:action:a#1
		0s result unknown        -> running a=unknown? check:a@1s
		1s found a absent        -> running a=unknown? check:a@10s
		10s found a absent sending -> running a=unknown? check:a@20s
		20s found a absent sending -> held a=unknown? tell
		21s retry                -> running a=unknown? check:a@21s
		30s found a absent       -> running a=ready action:a@30s`,

	"a refusal after the end is told": `
		step a undo await
		0s begin            -> running a=started call:action:a#1
		0s result done      -> running a=waiting
		0s signal a done    -> completed a=done tell
		1s signal a done    -> completed a=done
		1s signal a refused -> completed a=done contradict:a`,

	"a success after the end of a closed run is told": `
		step a undo n=1
		0s begin            -> running a=started call:action:a#1
		0s result unknown   -> held a=unknown? tell
		1s close            -> closed a=unknown? tell
		2s signal a refused -> closed a=unknown?
		2s signal a done    -> closed a=unknown? contradict:a`,

	"a skipped step that succeeds after all was undone is corrected": `
		step a undo n=2
		step b undo
		0s begin            -> running a=started call:action:a#1
		0s result retry     -> running a=ready action:a@1s
		0s skip a           -> running a=skipped b=ready action:b
		0s cancel           -> compensated a=skipped tell
		1s signal a done    -> compensated a=skipped correct:a
		1s correction a     -> compensating a=done/due undo:a`,

	"a call that cannot be made waits for a person, and nothing is undone": `
		step a undo
		step b undo n=1
		0s begin           -> running a=started call:action:a#1
		0s result done     -> running a=done b=ready action:b
		0s begin           -> running a=done b=started call:action:b#1
		0s result unmade   -> held a=done b=ready tell
		9s wake            -> held a=done b=ready
		9s retry           -> running a=done b=ready action:b@0s
		9s begin           -> running a=done b=started call:action:b#2
		9s result unmade   -> held a=done b=ready tell
		9s cancel          -> compensating a=done/due b=refused undo:a
		9s begin           -> compensating a=done/started b=refused call:undo:a#1
		9s result unmade   -> stuck a=done/stuck b=refused tell
		9s retry           -> compensating a=done/due b=refused undo:a@9s`,

	"a call that cannot be made says nothing of the one before it": `
		step a undo key=1h
		0s begin           -> running a=started call:action:a#1
		0s result unknown  -> running a=unknown? action:a@1s
		1s begin           -> running a=started? call:action:a#2
		1s result unmade   -> held a=unknown? tell
		2s retry           -> running a=unknown? action:a@2s
		2s begin           -> running a=started? call:action:a#3
		2s signal a done   -> running a=started?
		2s result unmade   -> completed a=done tell`,

	"a look-up that cannot be made is not counted": `
		step a undo check=1s n=1
		0s begin           -> running a=started call:action:a#1
		0s result unknown  -> running a=unknown? check:a@1s
		1s found a unmade  -> held a=unknown? tell
		2s retry           -> running a=unknown? check:a@2s
		2s found a done    -> completed a=done tell`,

	"what is looked up and has begun waits for its signal again": `
		step a undo await=10s check=1s
		step b
		0s  begin                 -> running a=started call:action:a#1
		1s  restart               -> running a=unknown? check:a@1s
		1s  found a begun out=x   -> running a=waiting
		2s  signal a done         -> running a=done b=ready action:b`,

	"what has begun and is not signalled in time is looked up as ever": `
		step a undo await=10s check=1s n=2
		0s  begin                 -> running a=started call:action:a#1
		1s  restart               -> running a=unknown? check:a@1s
		1s  found a begun         -> running a=waiting
		10s wake                  -> running a=waiting
		11s wake                  -> running a=unknown check:a@11s
		11s found a begun         -> running a=unknown check:a@12s
		12s found a begun         -> held a=unknown tell`,

	"what has begun is no end of a step that awaits nothing": `
		step a check=1s n=1
		0s  begin                 -> running a=started call:action:a#1
		0s  result unknown        -> running a=unknown? check:a@1s
		1s  found a begun         -> held a=unknown? tell`,

	"what has begun is no end of a step that is being undone": `
		step a undo await check=1s n=1
		0s  begin                 -> running a=started call:action:a#1
		1s  restart               -> running a=unknown? check:a@1s
		1s  cancel                -> compensating a=unknown? check:a@1s
		1s  found a begun         -> held a=unknown? tell`,
}
