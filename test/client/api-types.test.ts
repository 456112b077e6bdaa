import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";
import { apiTypes } from "../../scripts/package-types.ts";
import { temporaryFolder } from "../helpers/program.ts";

const SAME = `
import type * as sources from ${JSON.stringify(join(ROOT, "src", "client", "api.ts"))};
import type * as written from "./written.ts";

type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;
type Different<A, B> = {
  [Key in keyof A | keyof B]: Key extends keyof A & keyof B
    ? Same<A[Key], B[Key]> extends true ? never : Key
    : Key;
}[keyof A | keyof B];

export const none: [
  Different<sources.Answers, written.Answers>,
  Different<sources.Queries, written.Queries>,
  Different<sources.Bodies, written.Bodies>,
] extends [never, never, never] ? true : false = true;
export const codes: Same<sources.Code, written.Code> = true;

// A difference is an error.
import type * as wrong from "./wrong.ts";
// @ts-expect-error
export const differs: Different<sources.Answers, wrong.Answers> extends never ? true : false = true;
`;

test("the API types of the package equal the types of the sources", (t) => {
  const folder = temporaryFolder(t);
  const types = apiTypes();
  writeFileSync(join(folder, "written.ts"), types);
  const wrong = types.replace("readonly key_limit: number;", "readonly key_limit: string;");
  writeFileSync(join(folder, "wrong.ts"), wrong);
  writeFileSync(join(folder, "same.ts"), SAME);
  const args = [
    ...["--ignoreConfig", "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext"],
    ...["--allowImportingTsExtensions", "--typeRoots", join(ROOT, "node_modules", "@types")],
    ...["--types", "node", "same.ts"],
  ];
  const tsc = join(ROOT, "node_modules", ".bin", "tsc");
  const checked = spawnSync(process.execPath, [tsc, ...args], { cwd: folder, encoding: "utf8" });

  assert.notEqual(wrong, types);
  assert.equal(checked.stdout, "");
});
