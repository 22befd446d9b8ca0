Feature: 11 Connections

  Rule: 11.2 A connection that says nothing is not closed soon

    @S-11.2-idle @core @must
    Scenario: After 5 s of silence a connection is still served
      Given 1 holds door
      And 1 releases door
      When 5 s pass
      Then 1 still works

    @S-11.2-releases-nothing @core @must
    Scenario: A holder need not say anything
      Given 1 holds door
      When 3 s pass
      Then door is held
      When 1 sends "R door {1:door}"
      Then 1 receives "R door {1:door}"

  Rule: 11.3 The end of input is a drop, and what is due is still answered

    @S-11.3-answers-due @core @must
    Scenario: Answers that are due are written, then the connection is closed
      Given 1 holds door
      When 1 sends in one piece:
        """
        R door {1:door}
        R door {1:door}
        A
        """
      And 1 ends its input
      Then 1 receives "R door {1:door}"
      And 1 receives "E R door not-held"
      And 1 receives "E A ? bad-key"
      And 1 is closed

    @S-11.3-closed @core @must
    Scenario: A connection with a waiter is closed at the end of its input
      Given 1 holds door
      And 2 waits for door
      When 2 ends its input
      Then 2 is closed

  Rule: 11.4 A server that closes says its last line first

    @S-11.4-line-arrives @core @must
    Scenario: The last line arrives, although there is much unread behind the bad one
      When 1 sends a stranger's line and 64 KiB behind it
      Then 1 receives "E ? ? bad-request"
      And 1 is closed, and not by a reset

    @S-11.4-not-executed @core @must
    Scenario: Requests behind it are neither executed nor answered
      Given 2 holds door
      When 1 sends in one piece:
        """
        no op at all
        R door {2:door}
        A window -1 5
        """
      Then 1 receives "E ? ? bad-request"
      And 1 is closed
      And door is held
      And window is free

    @S-11.4-before-it @core @must
    Scenario: Requests before it are executed and answered
      When 1 sends in one piece:
        """
        A door -1 5
        no op at all
        """
      Then 1 is granted door
      And 1 receives "E ? ? bad-request"
      And 1 is closed
      And door is held

  Rule: 11.5 A connection too many is told so

    @S-11.5-limit @limits @must @needs-connections @alone
    Scenario: A server over its limit says limit, and closes
      Given as many connections are open as the server allows
      When 1 says nothing
      Then 1 receives "E ? ? limit"
      And 1 is closed

  Rule: 11.6 A client that does not read slows nobody down

    @S-11.6-slow-reader @core @must @timed @alone
    Scenario: Others are served while one client does not read its answers
      When 1 sends 100000 releases of a token it does not hold and does not read the answers
      And 1 s pass
      Then a new connection is served at once

  Rule: 11.7 A new connection holds nobody up

    @S-11.7-silent @core @must @timed
    Scenario: Connections that say nothing do not keep others from being served
      Given 20 connections are open and say nothing
      Then a new connection is served at once

    @S-11.7-half-a-line @core @must @timed
    Scenario: Half a line on one connection does not keep others from being served
      When 1 sends the bytes "A door" without an LF
      Then a new connection is served at once
