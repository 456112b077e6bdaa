import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test } from "node:test";

import { reachServer } from "../../../src/store/postgres/machine/dialer.ts";
import { parseServerAddress } from "../../../src/store/postgres/machine/server-address.ts";
import { askDatabase } from "../../helpers/postgres-nodes.ts";
import {
  newDatabaseUrl,
  reasonToSkipPostgres,
  reasonToSkipStandby,
  startPostgres,
} from "../../helpers/postgres.ts";

/** Connects to a URL as a node does, and returns the host. */
async function reach(url: string): Promise<string> {
  const { connection, host } = await reachServer(parseServerAddress(url), 5000);
  await connection.close();
  return host.shown;
}

/** The same URL with other parts. */
function changed(url: string, change: (parts: URL) => void): string {
  const parts = new URL(url);
  change(parts);
  return parts.href;
}

/** The URL of one server with a second place. */
function withHost(url: string, other: string, place: "before" | "behind"): string {
  const { host } = new URL(url);
  return url.replace(host, place === "before" ? `${other},${host}` : `${host},${other}`);
}

const NOBODY = "127.0.0.1:1";

describe("a server that is reached by its URL", { skip: reasonToSkipPostgres() }, () => {
  test("the first reachable host is used", async (t) => {
    const url = await newDatabaseUrl(t);
    const { host } = new URL(url);
    assert.equal(await reach(withHost(url, NOBODY, "before")), host);
    assert.equal(await reach(withHost(url, NOBODY, "behind")), host);
  });

  test("the error names each unreachable host and whether it may pass", async (t) => {
    const url = changed(await newDatabaseUrl(t), (parts) => (parts.password = "wrong"));
    await assert.rejects(reach(url), {
      kind: "failed",
      message: /refuses postgres with this pass/,
    });
    await assert.rejects(reach(withHost(url, NOBODY, "behind")), {
      kind: "unreachable",
      message: /refuses postgres with this password.*; nothing listens at 127\.0\.0\.1:1/,
    });
  });

  const skip = reasonToSkipStandby();
  test("a standby is not used if another host accepts writes", { skip }, async (t) => {
    const primary = await startPostgres(t);
    const standby = await startPostgres(t, { standbyOf: primary });
    const { host } = new URL(standby.url);
    const both = withHost(primary.url, host, "before");
    assert.equal(await reach(both), new URL(primary.url).host);
    assert.equal(await reach(`${both}?target_session_attrs=any`), host);
    await assert.rejects(reach(`${standby.url}?target_session_attrs=read-write`), {
      kind: "unreachable",
      message: /takes no writes: it is a standby/,
    });
  });

  for (const encoding of ["EUC_JP", "SQL_ASCII"]) {
    test(`a database with the encoding ${encoding} is refused`, async (t) => {
      const url = await newDatabaseUrl(t);
      const database = `e_${randomUUID()}`;
      await askDatabase(
        url,
        `CREATE DATABASE "${database}" ENCODING '${encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`,
      );
      t.after(() => askDatabase(url, `DROP DATABASE "${database}" WITH (FORCE)`));
      const other = changed(url, (parts) => {
        parts.pathname = database;
        parts.search = "";
      });

      await assert.rejects(reach(other), { kind: "failed", message: /createdb --encoding=UTF8/ });
    });
  }

  test("a server that may lose acknowledged writes is refused", async (t) => {
    const server = await startPostgres(t, { settings: { synchronous_commit: "off" } });
    await assert.rejects(reach(server.url), {
      kind: "failed",
      message: /would lose acknowledged tasks, because synchronous_commit is off/,
    });
  });
});
