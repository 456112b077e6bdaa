import assert from "node:assert/strict";
import { test } from "node:test";

import { momentText, zonedMoments } from "../../src/domain/clock/time.ts";

const WINTER = Date.parse("2026-01-31T23:59:59.999Z");
const SUMMER = Date.parse("2026-07-31T00:00:00.000Z");

test("a time is written with the offset of its zone and season", () => {
  for (const [timeZone, winter, summer] of [
    ["UTC", "2026-01-31 23:59:59 UTC", "2026-07-31 00:00:00 UTC"],
    ["Europe/Berlin", "2026-02-01 00:59:59 UTC+1", "2026-07-31 02:00:00 UTC+2"],
    ["America/New_York", "2026-01-31 18:59:59 UTC-5", "2026-07-30 20:00:00 UTC-4"],
    ["Asia/Kathmandu", "2026-02-01 05:44:59 UTC+5:45", "2026-07-31 05:45:00 UTC+5:45"],
  ] as const) {
    const write = zonedMoments(timeZone) ?? assert.fail();
    assert.deepEqual([write(WINTER), write(SUMMER)], [winter, summer]);
  }
  assert.equal(zonedMoments("UTC")?.(WINTER), momentText(WINTER));
});

test("an unknown zone returns null", () => {
  for (const name of ["", "Europe/Atlantis", "local", "Europe/Berlin ", "../etc/localtime"]) {
    assert.equal(zonedMoments(name), null, name);
  }
});
