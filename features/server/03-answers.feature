Feature: 3 Requests and answers

  A client finds out which answer belongs to which request by the op and the key
  that the answer names, and by order: so both have to be right.

  Rule: 3.1 Every request gets exactly one answer

    @S-3.1-one-each @core @must
    Scenario: As many answers as requests, and nothing besides
      When 1 sends in one piece:
        """
        A door -1 5
        A door -1 5
        R door 1
        B door
        A door soon 5
        A
        R door
        A window -1 5
        """
      Then 1 receives 8 answers and nothing more for 1 s

    @S-3.1-nothing-unsolicited @core @must
    Scenario: Nobody is told of the end of a lease
      When 1 holds door with a lease of 0.3 s
      Then 1 receives nothing for 1 s

  Rule: 3.2 An answer names the op and the key of its request

    @S-3.2-echo @core @must
    Scenario: Answers of each kind name their request
      When 1 sends "A door -1 5"
      Then 1 receives "A door TOKEN 5"
      When 1 sends "A door -1 4"
      Then 1 receives "T door"
      When 1 sends "R door 1"
      Then 1 receives "E R door not-held"
      When 1 sends "R door {1:door}"
      Then 1 receives "R door {1:door}"

    @S-3.2-release-echo @core @must
    Scenario: Two releases on one connection are told apart by their keys
      Given 1 holds door
      And 1 holds window
      When 1 sends in one piece:
        """
        R window {1:window}
        R door {1:door}
        """
      Then 1 receives "R door {1:door}"
      And 1 receives "R window {1:window}"

  Rule: 3.3 For one op and key on one connection, answers come in the order of the requests

    @S-3.3-held-back @core @must @timed
    Scenario: An answer that is ready waits for an older one, its request does not
      The second acquire of 2 ends after 0.3 s. It leaves the line then, and its
      answer is held back until the first one has its own.
      Given 1 holds door
      And 2 waits for door
      And 2 waits for door for at most 0.3 s
      And 3 waits for door
      Then 2 receives nothing for 1 s
      When 1 releases door
      Then 2 receives these lines, one after the other:
        """
        A door TOKEN 5
        T door
        """
      When 2 releases door
      Then 3 is granted door within 100 ms

    @S-3.3-refusals-in-turn @core @must @timed
    Scenario: A refusal takes its turn, too
      Given 1 holds door
      And 2 waits for door
      When 2 sends "A door soon 5"
      Then 2 receives nothing for 1 s
      When 1 releases door
      Then 2 receives these lines, one after the other:
        """
        A door TOKEN 5
        E A door bad-request
        """

    @S-3.3-do-not-queue-in-turn @core @must @timed
    Scenario: The T of an acquire that does not queue takes its turn, too
      Given 1 holds door
      And 2 waits for door
      When 2 sends "A door -1 5"
      Then 2 receives nothing for 1 s
      When 1 releases door
      Then 2 receives these lines, one after the other:
        """
        A door TOKEN 5
        T door
        """

    @S-3.3-other-keys-pass @core @must @timed
    Scenario: Answers for other keys and ops do not wait
      Given 1 holds door
      And 2 waits for door
      When 2 sends "A window -1 5"
      Then 2 is granted window at once
      When 2 sends "R door 1"
      Then 2 receives "E R door not-held" at once

    @S-3.3-told-late @resume @must @timed
    Scenario: A grant that is told late has the lease that is left then
      2 asks again for what 1 holds, behind a request of its own for the same key.
      That one is granted when the lease of 1 ends, and only then the answer to
      the other may come: the grant it tells of is over.
      Given 1 holds door with a lease of 2 s under the nonce n1
      And 2 waits for door
      And 2 waits for door under the nonce n1
      Then 2 receives these lines, one after the other:
        """
        A door TOKEN 5
        A door {1:door} 0
        """
      When 3 sends "R door {1:door}"
      Then 3 receives "E R door not-held"

    @S-3.3-released-meanwhile @resume @must @timed
    Scenario: A grant that ends before it is told of is told of with nothing left
      3 releases what 1 holds while the answer to the second acquire of 2, which
      asks for just that, waits for its turn.
      Given 1 holds door under the nonce n1
      And 2 waits for door
      And 2 waits for door under the nonce n1
      When 3 sends "R door {1:door}"
      Then 3 receives "R door {1:door}"
      And 2 receives these lines, one after the other:
        """
        A door TOKEN 5
        A door {1:door} 0
        """
      When 3 sends "R door {1:door}"
      Then 3 receives "E R door not-held"

    @S-3.3-superseded-in-turn @resume @must @timed
    Scenario: Superseded takes its turn, too
      Given 1 holds door
      And 2 waits for door
      And 2 waits for door under the nonce n1
      When 3 waits for door under the nonce n1
      Then 2 receives nothing for 0.5 s
      When 1 releases door
      Then 2 receives these lines, one after the other:
        """
        A door TOKEN 5
        E A door superseded
        """

    @S-3.3-spent-in-turn @resume @must @timed
    Scenario: And so does spent
      Given 1 holds door
      And 2 waits for door
      When 3 sends "C door n1"
      Then 3 receives "C door n1"
      When 2 sends "A door 0 5 n1"
      Then 2 receives nothing for 0.5 s
      When 1 releases door
      Then 2 receives these lines, one after the other:
        """
        A door TOKEN 5
        E A door spent
        """

    @S-3.3-granted-meanwhile @resume @must @timed
    Scenario: A new grant that is told of late is told with what is left of it
      The second acquire of 2 takes the first place over. It is granted when 1
      releases, and its answer waits for the first one, which times out.
      Given 1 holds door
      And 3 waits for door under the nonce n1
      And 2 waits for door for at most 1.5 s
      And 2 waits for door under the nonce n1
      When 1 releases door
      Then 2 receives "T door"
      And 2 is granted door with a lease of at most 4 s

    @S-3.3-keeps-in-turn @keep @must
    Scenario: A refused keep does not overtake the one before it
      Given 1 holds door
      When 1 sends in one piece:
        """
        K door {1:door} 5
        K door {1:door} 05
        """
      Then 1 receives these lines, one after the other:
        """
        K door {1:door} 5
        E K door bad-request
        """

  Rule: 3.4 Requests on one key from one connection take effect in the order they were sent

    @S-3.4-release-then-acquire @core @must
    Scenario: A release takes effect before the acquire behind it
      Given 1 holds door
      When 1 sends in one piece:
        """
        R door {1:door}
        A door -1 5
        """
      Then 1 receives "R door {1:door}"
      And 1 is granted door

    @S-3.4-acquire-then-acquire @core @must
    Scenario: Of two acquires in one piece, the first one is granted
      When 1 sends in one piece:
        """
        A door -1 4
        A door -1 5
        """
      Then 1 receives these lines, one after the other:
        """
        A door TOKEN 4
        T door
        """

    @S-3.4-hello-then-acquire @secret @must @needs-secret
    Scenario: A hello takes effect before the line behind it
      Given 1 is a connection without a secret
      When 1 gives the secret and sends "A door -1 5", in one piece
      Then 1 is granted door

    @S-3.4-keep-then-release @keep @must
    Scenario: A keep takes effect before the release behind it
      Given 1 holds door
      When 1 sends in one piece:
        """
        K door {1:door} 4
        R door {1:door}
        """
      Then 1 receives "K door {1:door} 4"
      And 1 receives "R door {1:door}"

    @S-3.4-acquire-then-cancel @resume @must
    Scenario: An acquire takes effect before the cancel behind it
      When 1 sends in one piece:
        """
        A door 0 5 n1
        C door n1
        """
      Then 1 receives "A door TOKEN 5"
      And 1 receives "C door n1"
      And door is free

  Rule: 3.5 A connection is read on while an acquire on it waits

    @S-3.5-behind-own-lock @core @must
    Scenario: The release that an acquire waits for may come over its own connection
      Given 1 holds door
      And 1 waits for door with a lease of 4 s
      Then 1 has received nothing
      When 1 sends "R door {1:door}"
      Then 1 is granted door with a lease of 4 s

    @S-3.5-not-reentrant @core @must
    Scenario: Who holds a key and asks again stands in line
      Given 1 holds door
      When 1 sends "A door -1 5"
      Then 1 receives "T door"

    @S-3.5-pipelined @core @must
    Scenario: 3,000 requests that are answered at once may come without a pause
      Only what must wait counts as unanswered.
      When 1 sends 3000 releases of a token it does not hold
      Then 1 receives 3000 answers and nothing more for 1 s

  Rule: 3.6 At least 1,024 requests may be unanswered

    @S-3.6-allowed @core @must @timed
    Scenario: 1,023 acquires wait on one connection, which is still served
      When 2 sends 1023 acquires, for 16 keys that 1 holds
      Then 2 receives nothing for 1 s
      And 2 still works

    @S-3.6-beyond @limits @must @needs-unanswered
    Scenario: A request beyond the limit is refused, and the connection closed
      When 2 sends 1 more acquires than one connection may have unanswered, for 8 keys that 1 holds
      Then 2 receives "E ? ? limit"
      And 2 is closed
      When 1 releases door1
      Then door1 is free

    @S-3.6-answered @core @must
    Scenario: What was answered does not count
      Given 1 holds door
      When 2 is told 4500 times that door is held
      Then 2 still works

