// Writes answers.txt: the first two times after each of the starts at which robfig/cron v3, which Kubernetes' CronJob uses, says that expressions are due, in UTC.
//
//	cd tests/golden/cron && go run . > answers.txt
//
// The years are past ones, so that no later edition of the time zone database changes the answers.
package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "America/St_Johns", "Africa/Cairo", "America/Havana", "America/Santiago",
	"Asia/Kolkata", "Asia/Kathmandu", "Pacific/Auckland", "Pacific/Chatham"}

var expressions = []string{"* * * * *", "0 * * * *", "*/15 * * * *", "7/20 * * * *", "30 2 * * *", "0 2,3 * * *", "15 1 * * *", "0 0 * * *", "30 0 * * *",
	"59 23 * * *", "0 0 1 * *", "0 0 31 * *", "0 12 29 2 *", "0 9 * * MON-FRI", "0 9 13 * FRI", "0 9 13 * ?", "0 9 */10 * 1", "0 9 */1 * 1", "5,35 8-10/2 * JAN,jul *",
	"0 3 * 3,10,11 0", "45 23 28-31 * 5,6", "0 4 1-7 * */2", "@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually", "30 1-3 * * *", "0 6 * FEB sun"}

// Before and after changes of the clock, the end of months and of years.
var starts = []string{"2024-02-28T22:00:30Z", "2024-03-09T23:10:00Z", "2024-03-10T06:15:00Z", "2024-03-30T12:00:00Z", "2024-03-31T00:59:59Z", "2024-03-31T01:00:00Z",
	"2024-04-06T12:00:00Z", "2024-04-25T20:00:00Z", "2024-09-07T22:00:00Z", "2024-10-26T20:00:00Z", "2024-10-27T00:15:00Z", "2024-10-27T01:15:00Z", "2024-10-31T20:30:00Z",
	"2024-11-03T04:45:00Z", "2024-11-03T05:45:00Z", "2024-11-03T06:10:00Z", "2024-12-31T22:59:00Z", "2025-06-15T10:20:30Z"}

// What the library accepts although it means nothing ("1,", "*-5", "+1") is refused by us and left out.
var parsed = []string{"* * * * *", "60 * * * *", "0 24 * * *", "0 0 0 * *", "0 0 32 * *", "0 0 * 0 *", "0 0 * 13 *", "0 0 * * 7", "*/0 * * * *", "5-1 * * * *", "1-2-3 * * * *",
	"1/2/3 * * * *", "a * * * *", "-1 * * * *", "0 0 * JAN-MAR *", "0 0 * JANUARY *", "0 0 * * SUN-SAT", "0 0 * * SAT-SUN",
	"? ? ? ? ?", "*/90 * * * *", "1-5/2,30 * * * *", "0 0 L * *", "0 0 1W * *", "0 0 * * 1#2", "0x1 * * * *", "* * * *", "* * * * * *", "", "@never", "@reboot"}

const written = "2006-01-02T15:04"

func main() {
	fmt.Printf("starts\t%s\n", strings.Join(starts, " "))
	for _, text := range parsed {
		answer := "good"
		if _, err := cron.ParseStandard(text); err != nil {
			answer = "bad"
		}
		fmt.Printf("parse\t%s\t%s\n", text, answer)
	}
	for _, name := range zones {
		zone, err := time.LoadLocation(name)
		if err != nil {
			panic(err)
		}
		for _, text := range expressions {
			schedule, err := cron.ParseStandard(text)
			if err != nil {
				panic(err)
			}
			next := []string{}
			for _, begin := range starts {
				at, err := time.Parse(time.RFC3339, begin)
				if err != nil {
					panic(err)
				}
				first := schedule.Next(at.In(zone))
				next = append(next, first.UTC().Format(written), schedule.Next(first).UTC().Format(written))
			}
			fmt.Printf("%s\t%s\t%s\n", name, text, strings.Join(next, " "))
		}
	}
}
