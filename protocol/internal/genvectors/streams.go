package main

type stream struct {
	Name    string `json:"name"`
	Section string `json:"section"`
	raw
	// Lines are what is cut from the stream, without LF.
	Lines []raw `json:"lines"`
	// Pending is the number of bytes at the end that are no line.
	Pending int `json:"pending"`
	// TooLong: after the lines, 1,024 bytes without LF were met.
	TooLong bool `json:"too_long"`
}

func streams() []stream {
	var all []stream
	names := named{}
	add := func(name, bytes string, pending int, tooLong bool, lines ...string) {
		names.add(name)
		s := stream{Name: name, Section: "2.2", raw: bytesOf(bytes), Lines: []raw{}, Pending: pending, TooLong: tooLong}
		for _, line := range lines {
			s.Lines = append(s.Lines, bytesOf(line))
		}
		all = append(all, s)
	}
	x := func(n int) string { return times("x", n) }

	add("nothing", "", 0, false)
	add("one", "P a\n", 0, false, "P a")
	add("two", "P a\nP b\n", 0, false, "P a", "P b")
	add("cr", "P a\r\nP b\n", 0, false, "P a", "P b")
	add("cr-twice", "P a\r\r\n", 0, false, "P a\r")
	add("cr-inside", "P\ra\n", 0, false, "P\ra")
	add("cr-last-without-lf", "P a\nP b\r", 4, false, "P a")
	add("cr-then-cut", "\r", 1, false)
	add("empty", "\n\n\nP a\n\n", 0, false, "P a")
	add("empty-cr", "\r\n\r\nP a\r\n\r\n", 0, false, "P a")
	add("lf-cr", "P a\n\rP b\n", 0, false, "P a", "\rP b")
	add("space-is-not-empty", " \n", 0, false, " ")
	add("cr-cr-is-not-empty", "\r\r\n", 0, false, "\r")
	add("last-without-lf", "P a\nP b", 3, false, "P a")
	add("only-without-lf", "A door 0 30", 11, false)
	add("any-bytes", "\x00\x01\x7f\x80\xff\n", 0, false, "\x00\x01\x7f\x80\xff")
	add("1023-bytes", x(1022)+"\n", 0, false, x(1022))
	add("1024-bytes", x(1023)+"\n", 0, false, x(1023))
	add("1025-bytes", x(1024)+"\n", 1025, true)
	add("1024-bytes-with-cr", x(1022)+"\r\n", 0, false, x(1022))
	add("1025-bytes-with-cr", x(1023)+"\r\n", 1025, true)
	add("1023-bytes-without-lf", x(1023), 1023, false)
	add("1024-bytes-without-lf", x(1024), 1024, true)
	add("1024-bytes-twice", x(1023)+"\n"+x(1023)+"\n", 0, false, x(1023), x(1023))
	add("too-long-after-a-line", "P a\n"+x(1024)+"\nP b\n", 1029, true, "P a")
	add("1022-crs", times("\r", 1022)+"\n", 0, false, times("\r", 1021))
	add("long-and-short", x(1000)+"\n"+x(1)+"\n"+x(1000)+"\n"+x(23), 23, false, x(1000), x(1), x(1000))
	return all
}

type duration struct {
	MS       int64  `json:"ms"`
	Shortest string `json:"shortest"`
}

func durations() []duration {
	return []duration{
		{0, "0"}, {1, "0.001"}, {9, "0.009"}, {10, "0.01"}, {11, "0.011"}, {99, "0.099"},
		{100, "0.1"}, {101, "0.101"}, {110, "0.11"}, {250, "0.25"}, {500, "0.5"}, {999, "0.999"},
		{1000, "1"}, {1001, "1.001"}, {1010, "1.01"}, {1100, "1.1"}, {9999, "9.999"},
		{10_000, "10"}, {29_500, "29.5"}, {30_000, "30"}, {60_000, "60"}, {dayMS, "86400"},
		{123_456_789, "123456.789"}, {999_999_999_000, "999999999"}, {maxMS, "999999999.999"},
	}
}
