import assert from "node:assert/strict";

import { findFakeTime, HOW_TO_GET_FAKE_TIME } from "./libfaketime.ts";
import { reasonToSkipPostgres } from "./postgres.ts";

/** The reason to skip tests with a wrong clock, or false. */
export function reasonToSkipFakeTime(): string | false {
  if (findFakeTime() !== null) return reasonToSkipPostgres();
  assert.notEqual(process.env["POSTBACKD_TEST_PEERS"], "required", HOW_TO_GET_FAKE_TIME);
  return HOW_TO_GET_FAKE_TIME;
}
