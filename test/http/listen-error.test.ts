import assert from "node:assert/strict";
import { test } from "node:test";

import { toListenError } from "../../src/http/server/listen.ts";

const FAULTS = [
  [
    "EADDRINUSE",
    8787,
    "another program listens there (EADDRINUSE); stop it, or choose another port",
  ],
  [
    "EACCES",
    443,
    "this user may not use the port (EACCES); choose one from 1024 on with --port, or",
  ],
  ["EACCES", 8787, "this user may not use the port (EACCES); choose another with --port"],
  [
    "EADDRNOTAVAIL",
    80,
    "that is no address of this machine (EADDRNOTAVAIL); choose one of its own",
  ],
  ["ENOTFOUND", 80, "the name has no address (ENOTFOUND); write an address with --host"],
  ["EAI_AGAIN", 80, "the name has no address (EAI_AGAIN); write an address with --host"],
] as const;

for (const [code, port, words] of FAULTS) {
  test(`tells of ${code} at port ${port} what it means and how to mend it`, () => {
    const error = toListenError(Object.assign(new Error("x"), { code }), { host: "h", port });

    assert.equal(error.name, "ListenError");
    assert.ok(error.message.startsWith(`cannot listen on h port ${port}: ${words}`), error.message);
  });
}

test("repeats an error that it does not know", () => {
  const { message } = toListenError(new Error("odd"), { host: "h", port: 1 });

  assert.equal(message, "cannot listen on h port 1: odd; choose another with --host and --port");
});
