import assert from "node:assert/strict";
import { test } from "node:test";

import { toListenError } from "../../src/http/server/listen.ts";

const FAULTS = [
  ["EADDRINUSE", 8787, /another port/],
  ["EACCES", 443, /from 1024 on with --port/],
  ["EACCES", 8787, /another with --port/],
  ["EADDRNOTAVAIL", 80, /this machine does not have that address/],
  ["ENOTFOUND", 80, /--host/],
  ["EAI_AGAIN", 80, /--host/],
  ["EODD", 80, /--host and --port/],
] as const;

test("a listen error has the host, the port, the code and advice", () => {
  for (const [code, port, advice] of FAULTS) {
    const cause = Object.assign(new Error(`listen ${code}`), { code });
    const { name, message } = toListenError(cause, { host: "h", port });

    assert.equal(name, "ListenError");
    assert.ok(message.startsWith(`cannot listen on h port ${port}: `), message);
    assert.ok(message.includes(code), message);
    assert.match(message, advice);
  }
});
