Feature: 13.1 to 13.3 Connections, the beat, dead connections
  The client runs as a child process; the suite is its servers. A server that
  is not told otherwise serves: it grants each A at once.

  Rule: 13.1 One connection per address, two for a single one, opened at once

    @C-13.1-one-each @core @must @timed
    Scenario: Three addresses get one connection each
      Also while calls go on, and never a second one.
      Given 3 servers
      When the client is given servers 1, 2 and 3
      Then each server is connected to within 1 s
      When the client acquires 6 different keys, one after the other
      And 1.5 s pass
      Then each server has had exactly 1 connection at all times since 1 s after the start

    @C-13.1-two-for-one @core @must @timed
    Scenario: A single address gets two connections
      Given 1 server
      When the client is given server 1
      Then each server is connected to within 1 s
      When the client acquires 4 different keys, one after the other
      And 1.5 s pass
      Then each server has had exactly 2 connections at all times since 1 s after the start

    @C-13.1-after-redirect @core @must
    Scenario: A redirect to a listed address uses the connection that is there
      Given 2 servers
      And server 1 answers each A with "M A KEY ADDR2"
      And the client is connected to servers 1 and 2
      When the client acquires 4 different keys, one after the other
      And 1.5 s pass
      Then each server has had exactly 1 connection at all times since 1 s after the start

  Rule: 13.2 A connection that is down is tried again every 3 s, by up to 10 % of jitter

    @C-13.2-beat @core @must @timed
    Scenario: An address that accepts and hangs up is dialled every 3 s
      A connection that ends before a byte was read on it counts as a failed
      attempt. Two addresses, as a single one has two connections.
      Given 2 servers
      And the client is connected to servers 1 and 2
      When server 1 resets every new connection, and those it has
      Then server 1 is connected to 3 times, 3 s after each loss

    @C-13.2-refused @core @must @timed
    Scenario: An address that refuses is dialled again 3 s after the attempt
      Given 2 servers
      And server 1 is down
      When the client is given servers 1 and 2
      And 1 s passes
      And server 1 is up again
      Then server 1 is connected to, 3 s after the start

    @C-13.2-rejoins @core @must @timed
    Scenario: A connection that was lost is back after 3 s, and in the rotation
      Given 2 servers
      And the client is connected to servers 1 and 2
      When server 1 resets its connections
      Then server 1 is connected to, 3 s later
      When 0.3 s pass
      And the client acquires 4 different keys, one after the other
      Then their A went round servers 1 and 2 in an exact cycle

  Rule: 13.3 A connection that owes an answer and is silent is pinged after 1 s, and reset 2 s later

    @C-13.3-ping @core @must @timed
    Scenario: A ping after 1 s of silence while an answer is owed
      Given 2 servers
      And each server leaves each A unanswered
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30"
      And the same connection receives "P *", 1 s later
      And the same connection receives "P *", 1 s later

    @C-13.3-reset @core @must @timed
    Scenario: A black hole is left 3 s after the request, and the call moves on
      The server has stopped answering, also pings.
      Given 2 servers
      And the client is connected to servers 1 and 2
      And the first server to receive an A goes silent
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30"
      And that connection is given up, 3 s later
      And another server receives "A door 0 30" at once
      And Ann has the lock

    @C-13.3-one-ping @core @must
    Scenario: No second ping while one is unanswered, and any byte is a sign of life
      Empty lines come every 1.5 s; no ping is answered.
      Given 2 servers
      And each server leaves each A unanswered
      And each server answers each P with ""
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30"
      When "" is sent on that connection every 1.5 s for 6 s
      Then that connection is open
      And that connection has received at most 1 P

    @C-13.3-unknown-op-is-a-pong @core @must
    Scenario: A server that does not know P is alive all the same
      Given 2 servers
      And each server speaks core only
      And each server leaves each A unanswered
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30"
      When 4.5 s pass
      Then that connection is open

    @C-13.3-idle @ping @must
    Scenario: An idle connection is pinged every 15 s
      Given 2 servers
      And the client is connected to servers 1 and 2
      Then server 1 receives "P *", 15 s after the last line to it
      And that connection is open

  Rule: 11.3 A client gives a connection up with a reset

    @C-11.3-reset @core @must
    Scenario: What was not delivered is not delivered later
      Given 2 servers
      And the client is connected to servers 1 and 2
      And the first server to receive an A goes silent
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30"
      And that connection is given up with a reset
