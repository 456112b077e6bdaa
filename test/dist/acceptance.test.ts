import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, type TestContext } from "node:test";

import { exerciseStart } from "../acceptance/start.ts";
import { PART, type ServedAccount, type Subject } from "../acceptance/subject.ts";
import { exerciseWebhooks } from "../acceptance/webhooks.ts";
import type { Finished, ProgramOptions } from "../helpers/program.ts";
import { emptyPlace, runBinary, startBinary, type Place } from "./binary.ts";

const EXECUTABLE: Subject = {
  async serve(t, { toml }) {
    const place = emptyPlace(t);
    const file = join(place.cwd, "data.db");
    writeFileSync(join(place.cwd, "postbackd.toml"), toml);
    const cli = (args: readonly string[]) => runBinary(t, [...args, "--db", file], place);
    const account = toAccount(await cli(["admin", "account", "create", "tester", "--json"]));
    const program = startBinary(t, ["start", "--db", file, "--port", "0"], place);
    const { url } = await program.ready;
    return { url, file, account, cli };
  },
  launch: (t, args, options) => startBinary(t, args, placeFor(t, options)),
  run: (t, args, options) => runBinary(t, args, placeFor(t, options)),
};

// The rest of the contract is the same code as in the sources, and none of it is a file of the executable.
describe(
  "the executable starts and sends webhooks by the contract",
  { concurrency: true, ...PART },
  () => {
    exerciseStart(EXECUTABLE);
    exerciseWebhooks(EXECUTABLE);
  },
);

function placeFor(t: TestContext, options: ProgramOptions = {}): Place {
  return { ...emptyPlace(t), ...options };
}

function toAccount({ code, stdout, stderr }: Finished): ServedAccount {
  assert.equal(code, 0, stderr);
  const { login, key, webhook_secret: secret } = JSON.parse(stdout);
  return { login, key: key.key, secret };
}
