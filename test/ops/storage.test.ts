import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";

import { createLogger } from "../../src/log.ts";
import { StorageWatch } from "../../src/ops/storage.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

test("callers share the size check under way", async () => {
  const clock = createFakeClock();
  const looks: PromiseWithResolvers<number>[] = [];
  const watch = new StorageWatch({
    clock,
    log: createLogger({ level: "info", format: "json", write: () => {} }),
    store: {
      usedBytes() {
        const look = Promise.withResolvers<number>();
        looks.push(look);
        return look.promise;
      },
      shortage: () => null,
      tryWrite: async () => {},
      hasSeveralAccounts: async () => false,
    },
    database: { freeBytes: () => 0 },
    ...{ diskFreeBytes: 0, databaseBytes: 100 },
  });

  const asked = [watch.shortage(), watch.shortageNow()];
  clock.advance(5000);
  asked.push(watch.shortage(), watch.shortageNow());
  await setImmediate();
  assert.equal(looks.length, 1);
  looks[0]?.resolve(100);
  for (const shortage of await Promise.all(asked)) assert.match(shortage ?? "", /database_size/);

  const next = watch.shortageNow();
  looks[1]?.resolve(99);
  assert.equal(await next, null);
  assert.equal(looks.length, 2);
});
