import pg from "pg";

import type { DaemonPlace } from "./daemon-file.ts";
import { PostgresServer } from "./postgres-server.ts";

// What a server of some size has; the rest is as PostgreSQL comes.
const SETTINGS = { shared_buffers: "512MB", max_wal_size: "4GB" };

/** A server to measure on, whose data lies in a folder of this one: on the disk on which a file would lie. */
export function startBenchServer(parent: string): Promise<PostgresServer> {
  return PostgresServer.start({ parent, settings: SETTINGS });
}

/** Has each daemon of a place take a schema of its own on a server. */
export function newDatabases({ url }: PostgresServer): Pick<DaemonPlace, "newDatabase"> {
  let count = 0;
  return {
    async newDatabase() {
      const schema = `daemon_${++count}`;
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      await client.query(`CREATE SCHEMA ${schema}`);
      await client.end();
      return `${url}?options=-csearch_path%3D${schema}`;
    },
  };
}
