Feature: 13.4 and 13.5 Rotation and spares

  Rule: 13.4 Acquires go round-robin over the live connections

    @C-13.4-cycle @core @must
    Scenario: Nine acquires over three servers are an exact cycle
      Where it starts is the client's choice.
      Given 3 servers
      And the client is connected to servers 1, 2 and 3
      When the client acquires 9 different keys, one after the other
      Then their A went round servers 1, 2 and 3 in an exact cycle

    @C-13.4-two-connections @core @must
    Scenario: Two connections to one address take turns
      Given 1 server
      And the client is connected to server 1
      When the client acquires 6 different keys, one after the other
      Then their A went round 2 connections in an exact cycle

    @C-13.4-only-acquires @core @must
    Scenario: Releases do not move the rotation
      If they did, all acquires would go to one of two servers.
      Given 2 servers
      And the client is connected to servers 1 and 2
      When the client acquires and releases 8 different keys, one after the other
      Then their A went round servers 1 and 2 in an exact cycle

    @C-13.4-keeps-do-not-move-it @keep @must
    Scenario: Keeps do not move the rotation
      If they did, all acquires would go to one of two servers.
      Given 2 servers
      And the client is connected to servers 1 and 2
      When the client acquires and keeps 8 different keys, one after the other
      Then their A went round servers 1 and 2 in an exact cycle

    @C-13.4-down-is-left-out @core @must
    Scenario: A connection that is down is left out
      Given 3 servers
      And the client is connected to servers 1, 2 and 3
      When server 2 goes down
      And 0.3 s pass
      And the client acquires 6 different keys, one after the other
      Then their A went round servers 1 and 3 in an exact cycle

    @C-13.4-release-goes-home @core @should
    Scenario: A release goes to the connection that its grant came from
      Given 3 servers
      And the client is connected to servers 1, 2 and 3
      When the client acquires and releases 6 different keys, one after the other
      Then each R came on the connection of its A

    @C-13.4-keep-goes-home @keep @should
    Scenario: A keep goes to the connection that its grant came from
      Given 3 servers
      And the client is connected to servers 1, 2 and 3
      When the client acquires and keeps 6 different keys, one after the other
      Then each K came on the connection of its A

    @C-13.4-cancel-goes-home @resume @should @timed
    Scenario: A cancel goes to the connection that has the acquire
      Given 3 servers
      And each server leaves each A unanswered
      And the client is connected to servers 1, 2 and 3
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30 *"
      When Ann gives up
      Then the same connection receives "C door *" at once

  Rule: 13.5 A connection that answered M is a spare

    @C-13.5-out-of-the-rotation @core @must
    Scenario: After the first redirect all calls go straight to the active
      Given 3 servers
      And servers 1 and 3 answer each A with "M A KEY ADDR2"
      And the client is connected to servers 1, 2 and 3
      When the client acquires 9 different keys, one after the other
      Then server 2 has granted them all
      And servers 1 and 3 have received at most 1 A each
      And that was not without a redirect

    @C-13.5-kept-warm @core @must
    Scenario: A spare stays connected
      Given 2 servers
      And server 1 answers each A with "M A KEY ADDR2"
      And the client is connected to servers 1 and 2
      When the client acquires 4 different keys, one after the other
      And 2 s pass
      Then server 1 has an open connection

    @C-13.5-serves-again @core @must
    Scenario: A spare serves again when an M names its address
      Server 2 takes over from server 1, and server 1 from server 2.
      Given 2 servers
      And server 1 answers each A with "M A KEY ADDR2"
      And the client is connected to servers 1 and 2
      When the client acquires 4 different keys, one after the other
      Then server 2 has granted them all
      When server 1 serves each A
      And server 2 answers each A with "M A KEY ADDR1"
      And the client acquires 4 different keys, one after the other
      Then server 1 has granted them all
      And server 2 has received at most 1 A of these

    @C-13.5-reconnected @core @must @timed
    Scenario: A spare that was lost serves again when it is back
      Given 2 servers
      And server 1 answers each A with "M A KEY ADDR2"
      And the client is connected to servers 1 and 2
      When the client acquires 2 different keys, one after the other
      Then server 2 has granted them all
      And that was not without a redirect
      When server 1 serves each A
      And server 1 resets its connections
      Then server 1 is connected to, 3 s later
      When 0.3 s pass
      And the client acquires 4 different keys, one after the other
      Then their A went round servers 1 and 2 in an exact cycle

    @C-13.5-last-one @core @must @timed
    Scenario: A spare serves again when no other connection is live
      Given 2 servers
      And server 1 answers each A with "M A KEY ADDR2"
      And the client is connected to servers 1 and 2
      When the client acquires 2 different keys, one after the other
      And server 1 serves each A
      And server 2 goes down
      And 0.3 s pass
      And Ann acquires "door"
      Then server 1 receives "A door 0 30" at once
      And Ann has the lock
