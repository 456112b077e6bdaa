import assert from "node:assert/strict";
import { test } from "node:test";

import { sourceProgram } from "../../scripts/kit/program.ts";
import { ScratchFolder } from "../../scripts/kit/scratch-folder.ts";
import { rowsFlag } from "../../scripts/siege/command.ts";
import { siegeLines, siegeTable } from "../../scripts/siege/report.ts";
import { SIEGE_ROWS } from "../../scripts/siege/rows.ts";
import { runRow } from "../../scripts/siege/siege-run.ts";

// What it measures is not asserted: only that it attacks, and that it looks at the other meanwhile.
test("the siege attacks, asks as somebody else meanwhile, and reports a row for each attack", async (t) => {
  const scratch = new ScratchFolder();
  t.after(() => scratch[Symbol.dispose]());
  const place = { program: sourceProgram(), folder: scratch.path };
  const options = { place, seconds: 1.5, aloneSeconds: 1, settledSecondsMax: 0 };

  const results = [];
  for (const row of SIEGE_ROWS) {
    if (["slow-json", "fill-up"].includes(row.name)) results.push(await runRow(row, options));
  }

  for (const { row, alone, attackers, vitals } of results) {
    const { name } = row;
    assert(alone.get.count > 0, `nobody asked before ${name}`);
    assert(Object.keys(attackers[name] ?? {}).length > 0, `${name} did nothing`);
    assert(vitals.rssBytesMax > 10e6, `${name} had no daemon`);
  }
  assert.match(siegeTable(results), /^\| slow-json .*\n\| fill-up /m);
  assert.match(
    siegeLines(results),
    /^- `slow-json`: .*attacker: \d+ × .*\n- `fill-up`: .*file \d+ MB/m,
  );
});

test("every row of the siege has a name of its own, and an unknown one is refused", () => {
  const names = SIEGE_ROWS.map(({ name }) => name);

  assert.deepEqual(rowsFlag.read(names.join(","), "only"), names);
  assert.equal(new Set(names).size, names.length);
  assert.throws(
    () => rowsFlag.read("slow-json,none", "only"),
    /--only knows slow-json, .*, not none/,
  );
});
