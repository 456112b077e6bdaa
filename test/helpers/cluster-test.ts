import { createRequire } from "node:module";
import type { test } from "node:test";

const runner: { readonly test: typeof test } = createRequire(import.meta.url)("node:test");

/**
 * A test that runs twice: on one daemon with SQLite, and on three daemons that share a PostgreSQL database
 * (`on-cluster.ts`). Only rules that several nodes could break are worth it.
 */
export const clusterTest = runner.test;
