import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { ROOT } from "../../scripts/manifest.ts";
import { reasonToSkipPostgres } from "../helpers/postgres.ts";

test(
  "rows of every kind come back the same from a server, by a move that is killed each way",
  { skip: reasonToSkipPostgres() },
  async () => {
    const args = ["--import", "tsx", join("scripts", "move.ts"), "--tasks", "400", "--kills", "1"];
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT });

    assert.match(stdout, /server to file \| +\d[\d,]+ /);
    assert.match(stdout, /all rows the same each time/);
  },
);
