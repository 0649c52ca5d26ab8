package spec

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func only(examples ...int) Only {
	return Only{Choice: Failed, Run: "0123", Seeds: []uint64{1}, Of: 100, Examples: examples}
}

// The field Only selects examples. The parameters Skip, Max, Select and Shard must then apply to the list of these
// examples instead of the whole dataset.
func TestOnlyPositions(t *testing.T) {
	selected := only(3, 4, 7, 20, 21, 22, 90)
	for _, c := range []struct {
		conditions Conditions
		want       []int
	}{
		{Conditions{Skip: 1, Shard: Whole}, selected.Examples},
		{Conditions{Skip: 3, Shard: Whole}, []int{3, 20, 90}},
		{Conditions{Skip: 1, Max: 2, Shard: Whole}, []int{3, 4}},
		{Conditions{Skip: 1, Shard: Shard{1, 3}}, []int{4, 21}},
		{Conditions{Skip: 2, Max: 3, Shard: Shard{1, 2}}, []int{7}},
	} {
		c.conditions.Only = selected
		if got := c.conditions.Positions(100); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.conditions, got, c.want)
		}
	}
	spread := Conditions{Skip: 1, Max: 3, Select: Spread, Shard: Whole}
	var want []int
	for _, turn := range spread.Positions(len(selected.Examples)) {
		want = append(want, selected.Examples[turn])
	}
	spread.Only = selected
	if got := spread.Positions(100); !reflect.DeepEqual(got, want) {
		t.Errorf("spread: %v, want %v", got, want)
	}
}

func TestIndices(t *testing.T) {
	for text, want := range map[string]Indices{`"0-3,7"`: {0, 1, 2, 3, 7}, `"5"`: {5}, `""`: nil, `"1,3,8-9"`: {1, 3, 8, 9}} {
		var got Indices
		if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
		if again, err := json.Marshal(want); err != nil || string(again) != text {
			t.Errorf("%v: %s, %v; want %s", want, again, err, text)
		}
	}
	for _, text := range []string{`"3-1"`, `"a"`, `"1,"`, `"-1"`, `"0-999999999999"`, `"0-16777216"`, `7`} {
		var got Indices
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s gives %d indices", text, len(got))
		}
	}
}

func TestOnlyCheck(t *testing.T) {
	if err := only(3, 4, 99).Check(100); err != nil {
		t.Error(err)
	}
	if err := (Only{}).Check(0); err != nil {
		t.Error(err)
	}
	without := only(1)
	without.Seeds = nil
	few := only(1, 2, 3)
	few.Of = 2
	other := only(1)
	other.Choice = "lost"
	for want, bad := range map[string]Only{
		"example 100 is selected": only(3, 100), "not in ascending order": only(4, 3), "are not in": only(3, 3), "the selected examples": only(-1, 3),
		"a selection of 0": only(), "with 0 seeds": without, "of 3 from 2": few, "want abstained or failed": other,
	} {
		if err := bad.Check(100); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", bad, err, want)
		}
	}
}
