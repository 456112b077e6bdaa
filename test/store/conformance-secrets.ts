import assert from "node:assert/strict";
import { test } from "node:test";

import type { OpenStore } from "./conformance.ts";

export function exerciseKeptSecrets(open: OpenStore): void {
  test("the first secret of a name is kept", async (t) => {
    const { store, again } = await open(t);
    const keep = (fresh: string) => ({ name: "cursors", fresh }) as const;

    const answers = await Promise.all(["a", "b"].map((fresh) => store.keepSecret(keep(fresh))));

    assert.deepEqual(answers, ["a", "a"]);
    for (const each of [store, await again()]) {
      assert.equal(await each.keepSecret(keep("c")), "a");
    }
  });
}
