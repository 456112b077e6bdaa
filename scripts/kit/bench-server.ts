import pg from "pg";

import type { DaemonPlace } from "./daemon-file.ts";
import { PostgresServer } from "./postgres-server.ts";

// What a server of some size has; the rest is as PostgreSQL comes.
const SETTINGS = { shared_buffers: "512MB", max_wal_size: "4GB" };

/** A server to measure on, whose data lies in a folder of this one: on the disk on which a file would lie. */
export function startBenchServer(parent: string): Promise<PostgresServer> {
  return PostgresServer.start({ parent, settings: SETTINGS });
}

/** Makes databases on a server, each without anything in it. */
export function newDatabases({ url }: PostgresServer): Required<Pick<DaemonPlace, "newDatabase">> {
  let count = 0;
  return {
    async newDatabase() {
      const name = `bench_${++count}`;
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      try {
        await client.query(`CREATE DATABASE ${name}`);
      } finally {
        await client.end();
      }
      const own = new URL(url);
      own.pathname = `/${name}`;
      return own.href;
    },
  };
}
