// Package client is the Go client of Stile, the lock server.
//
//	c, err := client.Dial(ctx, "10.0.0.1:5625,10.0.0.2:5625")
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//
//	lock, err := c.Acquire(ctx, "orders/42", client.Wait(5*time.Second), client.Lease(30*time.Second))
//	if err != nil {
//		return err
//	}
//	defer lock.Release(ctx)
//	err = store.Write(lock.Token(), order) // the store refuses a lower token
//
// A [Client] is safe for use by many goroutines and is meant to live as long
// as the program. It keeps one connection to each address in the background
// (two, if there is one address), takes turns among those that are live, moves
// what waits on a lost connection to the next, and follows redirects.
//
// Locks are not re-entrant: a second acquire of a key waits for the first
// one's release, also within one client. A lock ends with its lease, whatever
// its holder does; a holder that was paused for longer cannot notice in time.
// That is what [Lock.Token] is for: give it to whatever the lock protects,
// and let that refuse a token lower than the highest it has seen. Package
// fence has guards that do: in memory, in PostgreSQL and SQLite, behind HTTP,
// and in Redis.
//
// # Errors
//
// Every error is an [*Error]. What went wrong is matched with [errors.Is] and
// [errors.As]; [OutcomeOf] tells whether the request happened, definitely did
// not, or may have.
package client
