Feature: 7 Leases and time

  Times are judged on the suite's own clock. That something came too early is
  counted from before the suite sent what began it, that it came too late from
  after it read the answer: so neither the network nor the suite can make a
  right server wrong.

  Rule: 7.1 Never more than was asked

    @S-7.1-as-asked @core @must
    Scenario Outline: Of a lease that is not above its maximum a server grants all
      When 1 sends "A door -1 <lease>"
      Then 1 is granted door with a lease of <lease> s

      Examples:
        | name         | lease |
        | milliseconds | 0.25  |
        | second       | 1     |
        | five-seconds | 5     |

    @S-7.1-default @limits @must @needs-default-lease
    Scenario: The default is the operator's
      When 1 sends "A door -1 0"
      Then 1 is granted door with the default lease of the server

    @S-7.1-maximum @limits @must @needs-max-lease
    Scenario: More than the maximum is cut to it
      When 1 sends "A door -1 999999999.999"
      Then 1 is granted door with the longest lease of the server
      When 1 releases door
      Then door is free

    @S-7.1-sixty @limits @must @needs-max-lease
    Scenario: The maximum is at least 60 s
      When 1 sends "A door -1 60"
      Then 1 is granted door with a lease of 60 s
      When 1 releases door
      Then door is free

  Rule: 7.2 A lease runs from the grant, and is over at its end

    @S-7.2-reclaimed @core @must @timed
    Scenario: A key whose lease ended goes to the next in line
      Given 1 holds door with a lease of 1 s
      And 2 waits for door
      Then 2 is granted door when the lease of 1 ends

    @S-7.2-free-again @core @must
    Scenario: A key whose lease ended with nobody in line is free
      Given 1 holds door with a lease of 0.5 s
      When 0.8 s pass
      Then door is free

    @S-7.2-from-the-grant @core @must @timed
    Scenario: The lease of a waiter counts from its grant, not from its request
      Given 1 holds door
      And 2 waits for door with a lease of 1 s
      And 3 waits for door
      When 0.7 s pass
      And 1 releases door
      Then 2 is granted door with a lease of 1 s
      And 3 is granted door when the lease of 2 ends

    @S-7.2-late-release @core @must
    Scenario: A release after the end of the lease is refused, even if the key is still free
      Given 1 holds door with a lease of 0.5 s
      When 0.8 s pass
      And 1 sends "R door {1:door}"
      Then 1 receives "E R door not-held"

    @S-7.2-late-release-spares-the-next @core @must
    Scenario: A release after the end of the lease does not touch the next holder
      Given 1 holds door with a lease of 0.5 s
      And 2 waits for door
      Then 2 is granted door
      When 1 sends "R door {1:door}"
      Then 1 receives "E R door not-held"
      And door is held

    @S-7.2-each-its-own @core @must @timed
    Scenario: A later lease may end before an earlier one
      Given 1 holds door with a lease of 2 s
      And 1 holds window with a lease of 0.5 s
      And 2 waits for door
      And 2 waits for window
      Then 2 is granted window when the lease of 1 ends
      And 2 is granted door when the lease of 1 ends

    @S-7.2-chain @core @must @timed
    Scenario: Leases that end one after the other do not add up their lateness
      Given 1 holds door with a lease of 0.5 s
      And 2 waits for door with a lease of 0.5 s
      And 3 waits for door with a lease of 0.5 s
      And 4 waits for door
      Then 2 is granted door when the lease of 1 ends
      And 3 is granted door when the lease of 2 ends
      And 4 is granted door when the lease of 3 ends

    @S-7.2-to-the-millisecond @core @must @timed
    Scenario: It is over at its end, whenever the server's timers fire
      Then 8 leases of 0.2 s of 1 are over 3 ms after their ends

  Rule: 7.3 A lease or a wait ends at most 50 ms late where the machine has time

    @S-7.3-lease @core @should @timed
    Scenario: A lease ends within 50 ms of its time
      Given 1 holds door with a lease of 1 s
      And 2 waits for door
      Then 2 is granted door at most 50 ms after the lease of 1

    @S-7.3-wait @core @should @timed
    Scenario: A wait ends within 50 ms of its time
      Given 1 holds door
      When 2 sends "A door 0.5 5"
      Then 2 receives "T door" at most 50 ms after its wait of 0.5 s
