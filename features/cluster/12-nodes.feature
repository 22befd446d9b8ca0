Feature: 12 Nodes, states, redirects
  Node one is the node that serves at first, two and three are the others in
  the order of the list of peers. The active is whoever serves.

  Rule: 12.1 One node serves, and when it fails, a standby does

    @N-12.1-start @cluster @must @timed
    Scenario: Of three nodes that start at once one serves
      Given three nodes that were started at once
      Then a node serves within the time of a start
      And the others redirect to the active
      When all nodes are asked the whole time who grants
      Then soon exactly one node grants, and goes on alone

    @N-12.1-start-order @cluster @should @timed
    Scenario: It is the first of the list
      Given three nodes that were started at once
      Then a node serves within the time of a start
      And node one serves again soon
      And the active is the node of highest priority that lives

    @N-12.1-killed @cluster @must @timed
    Scenario: A standby serves when the active is killed
      Given a cluster that serves
      When node one is killed
      Then a node serves within the failover time
      And the others redirect to the active

    @N-12.1-silent @cluster @must @timed
    Scenario: A standby serves when nothing is heard of the active any more
      Its connections stay open, and nobody is told of its end.
      Given a cluster that serves
      When node one is paused
      Then a node serves within the failover time
      And the others redirect to the active

    @N-12.1-promotion-order @cluster @should @timed
    Scenario: The standby of highest priority takes over
      Given a cluster that serves
      When node one is killed
      Then a node serves within the failover time
      And the others redirect to the active
      And the active is the node of highest priority that lives

    @N-12.1-next-in-order @cluster @should @timed
    Scenario: The next one takes over where the second of the list is not there
      Given a cluster that serves
      And node two is killed
      And nothing happens for 1 s
      When node one is killed
      Then a node serves within the failover time
      And node three is the active

    @N-12.1-one-survivor @cluster @must @timed
    Scenario: The last node serves when two of three were killed
      Given a cluster that serves
      And Ann holds door at node one
      And nothing happens for 1 s
      When node one is killed
      Then a node serves within the failover time
      And nothing happens for 1 s
      When the active is killed
      Then a node serves within the failover time
      And door is held at the active
      And Ann can release door at the active

    @N-12.1-alone @cluster @should
    Scenario: A node that starts alone serves
      Given three nodes of which none runs
      When node two is started
      Then a node serves within the time of a start
      And node two is the active

    @N-12.1-take-back @cluster @should @timed
    Scenario: A node of higher priority gets the role back, and nobody notices
      Given a cluster that serves
      And node one is killed
      And a node serves within the failover time
      And Ann holds door at the active
      And clients that take keys in turns and try for 1 s only
      When node one is started
      Then node one serves again soon
      And the others redirect to the active
      And door is held at node one
      And no acquire of the clients has failed
      And their calls are those of locks
      And the tokens rise
      And Ann can release door at node one

  Rule: 12.1 A node that stops hands over first, and redirects then

    @N-12.1-first-redirect @cluster @must
    Scenario: Whoever the first redirect names serves
      Served, or held for 1 s at most; never a redirect back, no-active, or a
      refused connection.
      Given a cluster that serves
      Then node one is asked to stop at work, and whoever its first M names serves

    @N-12.1-work-goes-on @cluster @must
    Scenario: No acquire fails while a node hands over
      Given a cluster that serves
      And clients that take keys in turns and try for 1 s only
      And 0.5 s pass
      When node one is asked to stop
      And node one ends
      And 0.5 s pass
      Then no acquire of the clients has failed
      And their calls are those of locks

    @N-12.1-nothing-lost @cluster @must @timed
    Scenario: All grants and releases are there after a handoff
      Given a cluster that serves
      And Ann takes 60 keys at node one
      And Ann releases 20 of them at node one
      When node one is asked to stop
      And node one ends
      Then a node serves within the failover time
      And what Ann holds is still held at the active
      And what Ann has released is free at the active
      And Ann can release the rest at the active

  Rule: 12.1 A part of the network that is cut makes no second active

    @N-12.1-partial-partition @cluster @should @needs-partitions @timed
    Scenario Outline: Where a third node sees both, the active stays the only one
      Given a cluster that serves
      And all nodes are asked the whole time who grants
      When node <one> <can't> node <other>
      Then for 3 s no node grants but node one
      When the network is whole again
      Then soon exactly one node grants, and goes on alone
      And the tokens rise

      Examples:
        | name                | one | can't           | other |
        | both-ways           | one | is cut off from | two   |
        | active-not-heard    | one | can't reach     | two   |
        | standby-not-heard   | two | can't reach     | one   |
        | connections-refused | one | is reset by     | two   |

  Rule: 12.2 A redirect names the node that serves, and changes nothing

    @N-12.2-names-the-active @cluster @must
    Scenario: Every standby names the active's address
      Given a cluster that serves
      Then Ann gets a redirect to node one for each of these at node two
        """
        A door -1 5
        A door 0 5
        A door 3 5
        R door 1
        """
      And Bob gets a redirect to node one for each of these at node three
        """
        A door -1 5
        A door 0 5
        A door 3 5
        R door 1
        """

    @N-12.2-keep @keep @must
    Scenario: A standby redirects K
      Given a cluster that serves
      Then Ann gets a redirect to node one for each of these at node two
        """
        K door 1 5
        """

    @N-12.2-nonce @resume @must
    Scenario: A standby redirects C, and A with a nonce
      Given a cluster that serves
      Then Ann gets a redirect to node one for each of these at node two
        """
        A door -1 5 n1
        A door 0 5 n1
        C door n1
        """

    @N-12.2-follows @cluster @must @timed
    Scenario: After a failover the remaining standby names the new active
      Given a cluster that serves
      When node one is killed
      Then a node serves within the failover time
      And the others redirect to the active
      When node one is started
      And all nodes are asked the whole time who grants
      Then soon exactly one node grants, and goes on alone
      And the others redirect to the active

    @N-12.2-never-itself @cluster @must @timed
    Scenario: No node names itself, whatever happens
      Given a cluster that serves
      And all nodes are asked the whole time who grants
      When node one is killed
      Then a node serves within the failover time
      When node one is started
      And 2 s pass
      And the active is asked to stop
      And 1 s pass
      Then no node has named itself

    @N-12.2-no-effect @cluster @must
    Scenario: What was redirected has changed nothing
      Given a cluster that serves
      And Ann holds door at node one
      When Ann sends "R door {Ann:door}" to node two
      Then Ann receives "M R door {one}" from node two
      When Bob sends "A window 0 20" to node two
      Then Bob receives "M A window {one}" from node two
      And door is held at node one
      And window is free at node one
      And Ann can release door at node one

  Rule: 12.3 What a node answers in each state

    @N-12.3-ping @ping @must
    Scenario: A standby answers P
      Given a cluster that serves
      Then Ann gets the answer of a server to each of these at node two
        | P word | P word |

    @N-12.3-hello @hello @must
    Scenario: A standby answers H with its own address
      Given a cluster that serves
      Then Ann gets the answer of a server to each of these at node two
        | H 1 somebody | H 1 {two}     |
        | H 9          | E H 9 version |

    @N-12.3-malformed @cluster @must
    Scenario: A standby refuses malformed lines as every node does
      Given a cluster that serves
      Then Ann gets the answer of a server to each of these at node two
        | A door      | E A door bad-request |
        | A door 05 5 | E A door bad-request |
        | R door 0    | E R door bad-request |
        | A ? 0 5     | E A ? bad-key        |
        | B door 1    | E B door unknown-op  |

    @N-12.3-starting @cluster @must @timed
    Scenario: A node that starts holds requests until it knows who serves
      Given a cluster that serves
      When node two is killed and started at once
      And Ann sends "A door -1 5" to node two
      Then Ann receives "M A door {one}" from node two

    @N-12.3-all-starting @cluster @must @timed
    Scenario: Nodes that all start answer within the time for which they may hold
      Given three nodes that were started at once
      Then each node answers its first request as one that is starting

    @N-12.3-limit @cluster @must @needs-partitions @timed
    Scenario: A request that is held ends at its own limit
      Given a cluster that serves
      And node two is killed
      And node two is cut off from nodes one and three
      When node two is started
      And Ann sends "A door 0.3 5" to node two
      Then the wait of Ann for door of 0.3 s ends in time at node two

    @N-12.3-waiters-too @cluster @must
    Scenario: Who waits at a node that hands over is sent to its successor
      Given a cluster that serves
      And Ann holds door at node one
      And Bob waits for door at node one
      When node one is asked to stop
      Then Bob is sent to the successor for door at node one, and it serves
      And door is held at the active

    @N-12.3-stopping-alone @cluster @must
    Scenario: The last node tells who waits that it stops
      Given a cluster that serves
      And Ann holds door at node one
      And node two is killed
      And node three is killed
      And Bob waits for door at node one
      And nothing happens for 1 s
      When node one is asked to stop
      Then Bob receives "E A door stopping" from node one

  Rule: 12.4 When a node becomes active

    @N-12.4-places @resume @must @timed
    Scenario: Waiters with a nonce keep their places over a failover
      Given a cluster that serves
      And Ann holds door at node one
      And Bob waits for door under the nonce n1 at node one
      And Cid waits for door under the nonce n2 at node one
      And Dan waits for door under the nonce n3 at node one
      And nothing happens for 1 s
      When node one is killed
      Then a node serves within the failover time
      When Eve waits for door under the nonce n4 at the active
      And Dan waits for door under the nonce n3 at the active
      And Cid waits for door under the nonce n2 at the active
      And Bob waits for door under the nonce n1 at the active
      And Ann releases door at the active
      Then Bob is granted door at the active
      And Cid has received nothing from the active
      When Bob releases door at the active
      Then Cid is granted door at the active
      When Cid releases door at the active
      Then Dan is granted door at the active
      When Dan releases door at the active
      Then Eve is granted door at the active

    @N-12.4-places-in-a-handoff @resume @must @timed
    Scenario: Waiters with a nonce keep their places in a handoff
      Given a cluster that serves
      And Ann holds door at node one
      And Bob waits for door under the nonce n1 at node one
      And Cid waits for door under the nonce n2 at node one
      When node one is asked to stop
      Then Cid receives "M A door ADDR" from node one
      And Bob receives "M A door ADDR" from node one
      And a node serves within the failover time
      When Cid waits for door under the nonce n2 at the active
      And Bob waits for door under the nonce n1 at the active
      And Ann releases door at the active
      Then Bob is granted door at the active
      And Cid has received nothing from the active
      When Bob releases door at the active
      Then Cid is granted door at the active

    @N-12.4-lease @cluster @must @timed
    Scenario: A lease goes on over a failover
      Given a cluster that serves
      And Ann holds door with a lease of 4 s at node one
      And nothing happens for 1 s
      When node one is killed
      Then a node serves within the failover time
      When 0.5 s pass
      And Bob waits for door at the active
      Then Bob is granted door when the lease of Ann ends, later by the outage at most

    @N-12.4-lease-in-a-handoff @cluster @must @timed
    Scenario: A lease goes on over a handoff
      Given a cluster that serves
      And Ann holds door with a lease of 4 s at node one
      And nothing happens for 1 s
      When node one is asked to stop
      And node one ends
      Then a node serves within the failover time
      When Bob waits for door at the active
      Then Bob is granted door when the lease of Ann ends, later by the outage at most

    @N-12.4-kept-lease @keep @must @timed
    Scenario: So does one that was kept
      Given a cluster that serves
      And Ann holds door with a lease of 1.5 s at node one
      And Ann keeps door for 20 s at node one
      And nothing happens for 1 s
      When node one is killed
      Then a node serves within the failover time
      When nothing happens for 1 s
      Then door is held at the active
      And Ann can release door at the active

  Rule: 12.5 A node that was paused does not serve until it knows that no other took over

    @N-12.5-woken @cluster @must @timed
    Scenario: An active that wakes up does not grant what another one has granted
      Given a cluster that serves
      And Ann holds door at node one
      And Bob speaks to node one
      And nothing happens for 1 s
      When node one is paused
      Then a node serves within the failover time
      And Cid holds window at the active
      When Bob sends "A window -1 5" to node one
      And node one is resumed
      Then Bob is not granted window at node one
      When all nodes are asked the whole time who grants
      Then soon exactly one node grants, and goes on alone
      And door is held at the active
      And window is held at the active

  Rule: 12.6 What is not lost, and what may be

    @N-12.6-replicated @cluster @must @timed
    Scenario: What was answered a second before the active is killed is not lost
      Given a cluster that serves
      And Ann takes 60 keys at node one
      And Ann releases 20 of them at node one
      And nothing happens for 1 s
      When node one is killed
      Then a node serves within the failover time
      And what Ann holds is still held at the active
      And what Ann has released is free at the active
      And Ann can release the rest at the active

    @N-12.6-nonces @resume @must @timed
    Scenario: Nor are nonces: one that is granted or spent stays so
      Given a cluster that serves
      And Ann holds door under the nonce n1 at node one
      And Bob holds window under the nonce n2 at node one
      And Bob releases window at node one
      And Cid sends "C gate n3" to node one
      And Cid receives "C gate n3" from node one
      And nothing happens for 1 s
      When node one is killed
      Then a node serves within the failover time
      When Ann sends "A door 5 20 n1" to the active
      Then Ann is told of her grant of door again at the active
      When Bob sends "A window 5 20 n2" to the active
      Then Bob receives "E A window spent" from the active
      When Cid sends "A gate 5 20 n3" to the active
      Then Cid receives "E A gate spent" from the active

    @N-12.6-restarted @cluster @must @timed
    Scenario: Nothing is lost when the active is killed and is there again at once
      It has nothing in its memory then, and the standbys have all of it.
      Given a cluster that serves
      And Ann takes 40 keys at node one
      And nothing happens for 1 s
      When node one is killed and started at once
      Then a node serves within the failover time
      And what Ann holds is still held at the active
      When 2 s pass
      Then a node serves within the time of a start
      And what Ann holds is still held at the active
      And Ann can release the rest at the active

    @N-12.6-under-load @cluster @must @timed
    Scenario: What is lost when the active is killed at work is counted, and safe by its token
      Given a cluster that serves
      And clients that take keys in turns
      And 1 s pass
      When node one is killed
      Then a node serves within the failover time
      When 1 s pass
      Then what their clients have lost is counted
      And all tokens are distinct
      And the tokens rise

  Rule: 12.6 When two actives meet, one steps down

    @N-12.6-step-down @cluster @must @needs-partitions @timed
    Scenario: After a partition exactly one node serves
      Given a cluster that serves
      And all nodes are asked the whole time who grants
      When node one is cut off from nodes two and three
      Then a node serves on the side of nodes two and three within the failover time
      When 0.5 s pass
      And the network is whole again
      Then soon exactly one node grants, and goes on alone
      And the others redirect to the active

    @N-12.6-greater-token @cluster @must @needs-partitions @timed
    Scenario: Of two grants of one key the one with the greater token stays
      Given a cluster that serves
      And all nodes are asked the whole time who grants
      When node one is cut off from nodes two and three
      Then a node serves on the side of nodes two and three within the failover time
      When Ann asks for door at node one
      And Bob asks for door at the active
      And 0.5 s pass
      And the network is whole again
      Then soon exactly one node grants, and goes on alone
      And of the grants of door the one with the greater token holds, and no other

    @N-12.6-one-way @cluster @must @needs-partitions @timed
    Scenario Outline: After a cut in one direction exactly one node serves
      Given a cluster that serves
      And node three is killed
      And all nodes are asked the whole time who grants
      When node <from> can't reach node <to>
      And 2 s pass
      And the network is whole again
      Then soon exactly one node grants, and goes on alone
      And all tokens are distinct
      And the tokens of each node rise

      Examples:
        | name       | from | to  |
        | of-active  | one  | two |
        | of-standby | two  | one |
