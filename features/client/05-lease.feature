Feature: 13.11 The lease, as the client counts it
  The instant until which the client says a lock is held never lies after the
  server's own end of the lease.

  Rule: 13.11 The client's end of a lease is never later than the server's

    @C-13.11-slow-grant @core @must @timed
    Scenario: A grant that was long on its way is counted from the sending of its acquire
      The grant is made when the A is read, for 2 s. Its line takes 1.2 s to
      arrive. A client that counts from its arrival is 1.2 s late.
      Given 2 servers
      And each server speaks core only
      And all that each server sends takes 1.2 s on its way
      And the client is given servers 1 and 2
      When 2 s pass
      And Ann acquires "door" with a wait of 9 s and a lease of 2 s
      Then Ann has the lock
      And Ann's lock ends no later than 2 s after the A was read
      And Ann is told that the lock is lost, no later than 2 s after the A was read

    @C-13.11-lost @core @must @timed
    Scenario: The user is told at once when a lease ends
      Given 2 servers
      And the client is connected to servers 1 and 2
      When Ann acquires "door" with a lease of 1 s
      Then Ann has the lock
      And Ann is told that the lock is lost, no later than 1 s after the A was read
      And Ann was not told so before 0.5 s after the A was read

    @C-13.11-after-a-wait @ping @must @timed
    Scenario: After a wait, a grant is counted from the last ping that was answered before it
      The client pings every second while it waits, so it knows the start of
      the lease to within about a second.
      Given 2 servers
      And each server leaves each A unanswered
      And the client is connected to servers 1 and 2
      When Ann acquires "door" with a lease of 6 s
      And 2.6 s pass
      And the A of "door" is answered "A door 77 6"
      Then Ann has the lock
      And Ann's lock ends no later than 6 s after that answer
      And Ann's lock ends no sooner than 4.5 s after that answer

    @C-13.11-wait-without-pings @core @must @timed
    Scenario: Without any answer in between, a grant is counted from its acquire
      The server is busy and answers no ping for 1.5 s; then it grants.
      Given 2 servers
      And each server speaks core only
      And each server leaves each A unanswered
      And each server leaves each P unanswered
      And the client is connected to servers 1 and 2
      When Ann acquires "door" with a lease of 4 s
      And 1.5 s pass
      And the A of "door" is answered "A door 77 4"
      Then Ann has the lock
      And Ann's lock ends no later than 4 s after the A was read

    @C-13.11-keep-first @keep @must @timed
    Scenario: With less than half of the lease left, the client keeps the lock before it hands it out
      Given 2 servers
      And all that each server sends takes 1.2 s on its way
      And the client is given servers 1 and 2
      When 2 s pass
      And Ann acquires "door" with a wait of 9 s and a lease of 2 s
      Then one of the servers receives "A door 9 2"
      And the same connection receives "K door * *", no later than 2 s after the A was read
      And Ann has the lock
      And Ann's lock ends no later than 2 s after the K was read

    @C-13.11-asks-again @core @must @timed
    Scenario: With nothing left and no keep, the grant is given back, and the client asks again
      Given 2 servers
      And each server speaks core only
      And all that each server sends takes 1.2 s on its way
      And the client is given servers 1 and 2
      When 2 s pass
      And Ann acquires "door" with a wait of 9 s and a lease of 1 s
      Then one of the servers receives "A door 9 1"
      When 0.5 s pass
      And all that each server sends takes 0 s on its way
      Then one of the servers receives "R door 101"
      And one of the servers receives "A door * 1"
      And Ann has the lock with another token than 101

    @C-13.11-nothing-left @core @must
    Scenario: A grant of which nothing is left is no lock
      Such an answer was held back until its lease was over.
      Given 2 servers
      And each server speaks core only
      And the first server to receive an A answers "A KEY NEW 0"
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30"
      And one of the servers receives "A door 0 30"
      And Ann has the lock with another token than 101

    @C-13.11-keep-first-not-held @keep @needs-resume @must @timed
    Scenario: A grant that turns out to be over is asked for again, with a fresh nonce
      Given 2 servers
      And each server answers each K with "E K KEY not-held"
      And all that each server sends takes 1.2 s on its way
      And the client is given servers 1 and 2
      When 2 s pass
      And Ann acquires "door" with a wait of 9 s and a lease of 2 s
      Then one of the servers receives "A door 9 2 *"
      And the same connection receives "K door * *", no later than 2 s after the A was read
      When all that each server sends takes 0 s on its way
      Then one of the servers receives "A door * 2 *"
      And its nonce is not that of the A before
      And Ann has the lock with another token than 101

    @C-13.11-keep-counts-from-its-sending @keep @must @timed
    Scenario: A keep counts from its sending
      Given 2 servers
      And each server answers each K with "K KEY TOKEN LEASE" after 0.7 s
      And the client is connected to servers 1 and 2
      And Ann holds "door" with a lease of 10 s
      When Ann keeps the lock with a lease of 5 s
      Then Ann's keep ends well
      And Ann's lock ends no later than 5 s after the K was read

    @C-13.11-keep-again @keep @must
    Scenario: A keep is sent again over another connection
      Given 2 servers
      And the client is connected to servers 1 and 2
      And the first server to receive a K resets the connection
      And Ann holds "door" with a lease of 10 s
      When Ann keeps the lock with a lease of 20 s
      Then one of the servers receives "K door 101 20"
      And another server receives "K door 101 20"
      And Ann's keep ends well

    @C-13.11-keep-not-held @keep @must @timed
    Scenario: not-held to a keep means that the lock is lost
      Given 2 servers
      And each server answers each K with "E K KEY not-held"
      And the client is connected to servers 1 and 2
      And Ann holds "door" with a lease of 10 s
      When Ann keeps the lock with a lease of 20 s
      Then Ann's keep ends with not_held
      And Ann is told that the lock is lost, at once

    @C-13.11-keep-too-late @keep @must @timed
    Scenario: A good answer to a keep that comes after the end is followed by a release
      The lock was declared lost; it stays lost, and nobody must go on holding it.
      Given 2 servers
      And each server leaves each K unanswered
      And the client is connected to servers 1 and 2
      And Ann holds "door" with a lease of 1 s
      When Ann keeps the lock with a lease of 20 s
      Then one of the servers receives "K door 101 20"
      And Ann is told that the lock is lost, no later than 1 s after the A was read
      When 0.3 s pass
      And the K of "door" is answered "K door 101 20"
      Then one of the servers receives "R door 101" at once
      And Ann does not hold the lock

    @C-13.11-granted-lease @core @must @timed
    Scenario: The lease that was granted counts, not the one that was asked for
      Given 2 servers
      And each server answers each A with "A KEY NEW 1"
      And the client is connected to servers 1 and 2
      When Ann acquires "door" with a lease of 20 s
      Then Ann has the lock
      And Ann is told that the lock is lost, no later than 1 s after the A was read

    @C-13.11-kept-lease @keep @must @timed
    Scenario: And so does the one that a keep was answered with
      Given 2 servers
      And each server answers each K with "K KEY TOKEN 1"
      And the client is connected to servers 1 and 2
      And Ann holds "door" with a lease of 10 s
      When Ann keeps the lock with a lease of 20 s
      Then Ann's keep ends well
      And Ann's lock ends no later than 1 s after the K was read

    @C-13.11-other-connections @core @must @timed
    Scenario: An answer on another connection says nothing about a wait
      Given 2 servers
      And each server speaks core only
      And each server leaves each A unanswered
      And each server leaves each P unanswered
      And the client is connected to servers 1 and 2
      When Ann acquires "door" with a lease of 4 s
      And 1.2 s pass
      And Ben acquires "gate" with a lease of 4 s
      Then one of the servers receives "A gate 0 4"
      When the A of "gate" is answered "A gate 76 4"
      Then Ben has the lock
      When the A of "door" is answered "A door 77 4"
      Then Ann has the lock
      And Ann's lock ends no later than 4 s after the A was read
