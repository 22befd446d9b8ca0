Feature: 8 Tokens
  Node one is the node that serves at first, two and three are the others in
  the order of the list of peers. The active is whoever serves.

  Rule: 8.1 No token is given twice, and tokens rise from a node to its successor

    @N-8.1-failover @cluster @must @timed
    Scenario: A successor's tokens are above all of a node that was killed
      Given a cluster that serves
      And Ann takes 20 keys at node one
      When node one is killed
      Then a node serves within the failover time
      When Bob takes 20 keys at the active
      Then all tokens are distinct
      And the tokens rise

    @N-8.1-second-failover @cluster @must @timed
    Scenario: So are those of the successor's successor
      Given a cluster that serves
      And Ann takes 5 keys at node one
      And nothing happens for 1 s
      When node one is killed
      Then a node serves within the failover time
      When Bob takes 5 keys at the active
      And nothing happens for 1 s
      And the active is killed
      Then a node serves within the failover time
      When Cid takes 5 keys at the active
      Then all tokens are distinct
      And the tokens rise

    @N-8.1-handoff @cluster @must @timed
    Scenario: Tokens rise when a node that stops hands over
      Given a cluster that serves
      And clients that take keys in turns
      And Ann takes 20 keys at node one
      When node one is asked to stop
      And node one ends
      Then a node serves within the failover time
      When Bob takes 20 keys at the active
      Then all tokens are distinct
      And the tokens rise

    @N-8.1-all-restarted @cluster @must
    Scenario: Tokens rise when all nodes were killed and started again
      Given a cluster that serves
      And Ann takes 20 keys at node one
      When all nodes are killed
      And all nodes are started
      Then a node serves within the time of a start
      When Bob takes 20 keys at the active
      Then all tokens are distinct
      And the tokens rise

    @N-8.1-restarted @cluster @must @timed
    Scenario: Tokens rise when the active is killed and is there again at once
      Given a cluster that serves
      And Ann takes 20 keys at node one
      When node one is killed and started at once
      Then a node serves within the failover time
      When Bob takes 20 keys at the active
      Then all tokens are distinct
      And the tokens rise

  Rule: 8.1 In a partition the tokens of the side promoted later are the greater ones

    @N-8.1-partition @cluster @must @needs-partitions @timed
    Scenario: Two sides that both serve give no token twice, and the later side the greater ones
      Given a cluster that serves
      And all nodes are asked the whole time who grants
      And Ann takes 5 keys at node one
      When node one is cut off from nodes two and three
      Then a node serves on the side of nodes two and three within the failover time
      When Bob takes 5 keys at the active
      And 1 s pass
      Then all tokens are distinct
      And the tokens of each node rise
      And the tokens of the side promoted later are above those of node one

    @N-8.1-healed @cluster @must @needs-partitions @timed
    Scenario: The first token after a partition is above those of both sides
      Given a cluster that serves
      And all nodes are asked the whole time who grants
      When node one is cut off from nodes two and three
      Then a node serves on the side of nodes two and three within the failover time
      When Ann asks for door at node one
      And Bob takes 5 keys at the active
      And 0.5 s pass
      And the network is whole again
      Then soon exactly one node grants, and goes on alone
      And the next token is above all before
      And all tokens are distinct
      And the tokens of each node rise
