import { StoreError } from "../../store-error.ts";
import { Connection } from "./connection.ts";
import { SeqSource } from "./seq.ts";
import type { ServerAddress } from "./server-address.ts";
import type { NodeLife, WriterNode } from "./writer.ts";

/** How many connections of a node write. */
export const WRITERS = 2;

// A statement that is not answered for so long costs its connection.
const DEADLINE_MS = 5000;

/** How a node is known to people. */
export interface NodeName {
  readonly name: string;
  readonly url: string | null;
  readonly version: string;
}

const JOIN = `
  INSERT INTO nodes (name, url, version, schema_min, schema_max, joined_at, expires_at)
  VALUES ($1, $2, $3, $4, $4, $5::bigint, $5::bigint + 10000) RETURNING seq`;

const FREE_STRIPE = `
  SELECT stripe FROM stripes WHERE stripe % 2 = 0 AND node_seq IS NULL
  ORDER BY stripe LIMIT 1 FOR UPDATE SKIP LOCKED`;

const TAKE_STRIPES = `UPDATE stripes SET node_seq = $1 WHERE stripe IN ($2, $2 + 1)`;

const LEAVE = `UPDATE nodes SET ended_at = $2 WHERE seq = $1 AND ended_at IS NULL`;
const FREE_STRIPES = `UPDATE stripes SET node_seq = NULL WHERE node_seq = $1`;

/** This daemon as one of the nodes of a database. */
export class ServerNode implements WriterNode {
  readonly #server: ServerAddress;
  readonly #name: NodeName;
  #life: Promise<NodeLife> | null = null;
  #isClosed = false;

  constructor(server: ServerAddress, name: NodeName) {
    this.#server = server;
    this.#name = name;
  }

  life(): Promise<NodeLife> {
    this.#life ??= this.#join();
    return this.#life;
  }

  fenced(_life: NodeLife): void {
    this.#life = null;
  }

  connect(): Promise<Connection> {
    if (this.#isClosed) return Promise.reject(new StoreError("closed", "the store is closed"));
    return Connection.open(this.#server.hosts[0] ?? {}, DEADLINE_MS);
  }

  /** Leaves the other nodes: what this one was doing is theirs from now on. */
  async leave(): Promise<void> {
    if (this.#life === null) return;
    const { nodeSeq } = await this.#life;
    const connection = await this.connect();
    await connection.command("BEGIN");
    await connection.run(LEAVE, [nodeSeq, Date.now()]);
    await connection.run(FREE_STRIPES, [nodeSeq]);
    await connection.command("COMMIT");
    await connection.close();
    this.#isClosed = true;
  }

  async #join(): Promise<NodeLife> {
    const connection = await this.connect();
    const { name, url, version } = this.#name;
    await connection.command("BEGIN");
    const node = await connection.get<{ seq: number }>(JOIN, [name, url, version, 1, Date.now()]);
    const free = await connection.get<{ stripe: number }>(FREE_STRIPE);
    if (node === undefined || free === undefined)
      throw new Error("too many daemons share this database");
    await connection.run(TAKE_STRIPES, [node.seq, free.stripe]);
    await connection.command("COMMIT");
    await connection.close();
    const seqs = new SeqSource(Date.now, free.stripe / WRITERS);
    return {
      nodeSeq: node.seq,
      stripes: [free.stripe, free.stripe + 1],
      nextSeq: () => seqs.next(),
    };
  }
}
