import assert from "node:assert/strict";
import { test } from "node:test";

import type { OpenStore } from "./conformance.ts";

/** The part of the conformance suite that is about what daemons keep for themselves. */
export function exerciseKeptSecrets(open: OpenStore): void {
  test("keeps the first secret of a name for good, whoever brings another", async (t) => {
    const { store, again } = await open(t);
    const keep = (fresh: string) => ({ name: "cursors", fresh }) as const;

    const answers = await Promise.all(["a", "b"].map((fresh) => store.keepSecret(keep(fresh))));

    assert.deepEqual(answers, ["a", "a"]);
    for (const each of [store, await again()]) {
      assert.equal(await each.keepSecret(keep("c")), "a");
    }
  });
}
