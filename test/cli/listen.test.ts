import assert from "node:assert/strict";
import { test } from "node:test";

import { newKey, newWorkerToken } from "../../src/domain/account/key.ts";
import { runProgram } from "../helpers/program.ts";

const KEY = newKey().key;
// Nobody listens there: what is refused must be refused before it is asked.
const URL = "--url http://127.0.0.1:1";
const TO = "--forward-to http://127.0.0.1:1/hook";

const WRONG: readonly [words: string, code: number, stderr: RegExp][] = [
  [TO, 2, /^postbackd: give the daemon's base URL, with --url URL\n/],
  [URL, 2, /^postbackd: give the receiver's URL, with --forward-to URL\n/],
  [`${URL} --forward-to ftp://a`, 2, /^postbackd: --forward-to takes an http or https URL/],
  [`${URL} --forward-to http://a:b@127.0.0.1`, 2, /^postbackd: --forward-to .+ without a user\n/],
  [`${URL} ${TO} --ca /nowhere/ca.pem`, 78, /^postbackd: \/nowhere\/ca\.pem \(--ca\) /],
  [`--url http://192.0.2.1 ${TO}`, 78, /^postbackd: .+ key and tasks would travel readable;/],
];

for (const [words, code, stderr] of WRONG) {
  test(`says what is wrong: listen ${words}`, async (t) => {
    const env = { POSTBACKD_KEY: KEY };

    const finished = await runProgram(t, ["listen", ...words.split(" ")], { env });

    assert.deepEqual([finished.code, finished.stdout], [code, ""], finished.stderr);
    assert.match(finished.stderr, stderr);
    assert.ok(!finished.stderr.includes(KEY));
  });
}

test("refuses what is no key, and repeats nothing of it", async (t) => {
  const args = ["listen", ...URL.split(" "), ...TO.split(" ")];

  for (const wrong of [newWorkerToken().key, `${KEY.slice(0, -1)}_`, "hunter2-hunter2"]) {
    const finished = await runProgram(t, args, { env: { POSTBACKD_KEY: wrong } });

    assert.equal(finished.code, 2);
    assert.match(finished.stderr, /^postbackd: POSTBACKD_KEY holds no key of an account, which is/);
    assert.ok(!finished.stderr.includes(wrong.slice(9, 15)), finished.stderr);
  }
});
