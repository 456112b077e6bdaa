import { type Clock, type Timer, settlesWithin, wait } from "../../../domain/clock/clock.ts";
import { messageOf } from "../../../domain/error.ts";
import type { Logger } from "../../../domain/log.ts";
import type { Cluster, NodeFacts, NodeRole, NodeSummary } from "../../cluster.ts";
import { StoreError } from "../../store-error.ts";
import { hasLostCommits } from "./commits.ts";
import type { Connection } from "./connection.ts";
import { DatabaseClock } from "./database-clock.ts";
import { type Dialer, findTimeline, ENDER, READER, WRITER } from "./dialer.ts";
import {
  BEATS_TO_LIVE,
  type BeatAnswer,
  type NodeName,
  beat,
  endExpired,
  join,
  leave,
  listNodes,
  membersOf,
  nextExpiryMs,
} from "./heartbeat.ts";
import { Lifeline, NodeEnder, type NodeLife, Rejoin, newAwaitedLife } from "./life.ts";
import { RoleHolder } from "./roles.ts";
import { SeqSource, type Sql } from "./sql.ts";

/** How many connections of a node write. */
export const WRITERS = 2;

// A node stops by itself before the others take it for dead: what it began last has then a little time to end.
const BEATS_TO_FENCE = 4;
const BEATS_TO_WAIT = 2.5;

const RETRY_MS = 100;
const LEAVE_MS_MAX = 1500;
const REACH_MS_MAX = 1000;

export interface NodeParts {
  readonly dialer: Dialer;
  readonly name: NodeName;
  /** `tool` for a process that takes a few steps and ends: the nodes do not count it among them. */
  readonly kind: "node" | "tool";
  /** The machine's. */
  readonly clock: Clock;
  readonly beatMs: number;
  readonly log: Logger | undefined;
}

/** This daemon as one of the nodes of a database. */
export class ServerNode implements Cluster {
  readonly isShared = true;
  self = "";
  readonly clock: DatabaseClock;
  readonly #parts: NodeParts;
  readonly #lifeline: Lifeline;
  readonly #rejoin: Rejoin;
  readonly #ender: NodeEnder;
  readonly #roles = new RoleHolder();
  readonly #listeners = new Set<() => void>();
  readonly #closing = new AbortController();
  #life = newAwaitedLife();
  #members: readonly string[] = [];
  #facts: () => NodeFacts | null = () => null;
  #connection: Connection | null = null;
  #timeline: string | null = null;
  #fenceTimer: Timer | null = null;
  /** The time until another node counts as dead without a heartbeat. */
  #nextExpiryMs = Infinity;
  /** Ends the pause before the next heartbeat. */
  #pause = new AbortController();
  #loop: Promise<void> = Promise.resolve();

  constructor(parts: NodeParts) {
    this.#parts = parts;
    this.clock = new DatabaseClock(parts.clock);
    this.#rejoin = new Rejoin(parts, this.#closing.signal);
    this.#lifeline = new Lifeline(parts.clock, BEATS_TO_FENCE * parts.beatMs);
    this.#ender = new NodeEnder({
      ...parts,
      ended: () => {
        this.#tell();
        this.#wake();
      },
    });
  }

  /** Joins the others. Rejects when the server cannot be reached or cannot be used. */
  async open(): Promise<void> {
    const connection = await this.#parts.dialer.dial(ENDER);
    await this.#begin(connection);
    await connection.close();
    await this.#step();
    this.#loop = this.#run();
  }

  membership(): readonly string[] {
    return this.#members;
  }

  /** True when this node is not the only member. */
  get hasOthers(): boolean {
    return this.#members.length > 1 || this.#members[0] !== this.self;
  }

  isMember(): boolean {
    return this.#life.begun !== null && !this.#lifeline.isCut;
  }

  holds(role: NodeRole): boolean {
    return this.#roles.held.includes(role) && this.isMember();
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  resign(): void {
    this.#roles.isResigning = true;
    this.#wake();
  }

  rejoin(reason: string): void {
    if (this.#life.begun === null) return;
    this.#rejoin.noteFailure();
    this.#lose(reason);
  }

  tellFacts(source: () => NodeFacts): void {
    this.#facts = source;
  }

  /** Lists the nodes, with the current facts of this node. */
  async list(sql: Sql): Promise<readonly NodeSummary[]> {
    const nodes = await listNodes(sql, { now: this.clock.now(), liveMs: this.#liveMs });
    return nodes.map((node) => (node.id === this.self ? { ...node, facts: this.#facts() } : node));
  }

  /** Settles with the node's present life, or rejects when the store is closed. */
  life(): Promise<NodeLife> {
    return this.#life.promise;
  }

  /** True when another life has begun since, or is awaited. */
  isOver(life: NodeLife): boolean {
    return this.#life.begun !== life;
  }

  /** A batch found out that a life is over. */
  fenced(life: NodeLife): void {
    if (!this.isOver(life)) this.#lose("another node took its stripes");
  }

  /** The server lacks what is committed in this life. */
  hasLost(life: NodeLife): void {
    if (this.isOver(life)) return;
    this.#parts.log?.error(
      { node: this.self },
      "the database lost its last acknowledged commits: a standby was promoted that did not have them",
    );
    this.#lose("the database has lost what it was doing");
  }

  /** Opens a connection for writes; tries until it succeeds, or rejects when the store is closed. */
  connect(): Promise<Connection> {
    return this.#parts.dialer.reach(WRITER);
  }

  /** Opens a connection for reads; rejects when the server cannot be reached now. */
  connectReader(): Promise<Connection> {
    return this.#parts.dialer.dial(READER);
  }

  /** How long a client waits for a server that does not answer. */
  get patienceMs(): number {
    return BEATS_TO_WAIT * this.#parts.beatMs;
  }

  /** True when the server has not answered for so long that a client need not wait to learn it. */
  get isOutOfReach(): boolean {
    return this.#lifeline.silentMs > this.patienceMs;
  }

  /** True if the server accepts a connection soon. */
  isReached(): Promise<boolean> {
    const { clock, dialer } = this.#parts;
    const found = dialer.dial(WRITER).then((connection) => connection.close());
    return settlesWithin(found, REACH_MS_MAX, clock).catch(() => false);
  }

  /** Rejects what waits for the server, or for a life: none of it is written any more. */
  shut(): void {
    this.#closing.abort();
    this.#life.promise.catch(() => {});
    this.#life.reject(new StoreError("closed", "the store is closed"));
    this.#parts.dialer.close();
  }

  /** Leaves the others: what this node was doing is theirs from now on. Gives up soon when the server is gone. */
  async leave(): Promise<void> {
    this.#closing.abort();
    this.#fenceTimer?.cancel();
    this.#wake();
    // After its last heartbeat, which might claim roles again, or begin another life.
    const left = this.#loop.then(async () => {
      const { begun } = this.#life;
      if (begun === null) return;
      const connection = await this.#parts.dialer.dial(ENDER);
      await leave(connection, begun.nodeSeq);
      await connection.close();
    });
    await settlesWithin(left, LEAVE_MS_MAX, this.#parts.clock).catch(() => {});
    this.shut();
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    const { beatMs, log } = this.#parts;
    let pauseMs = beatMs;
    while (!signal.aborted) {
      await this.#pauseFor(pauseMs);
      if (signal.aborted) break;
      try {
        await this.#step();
        // Nodes that started together drift apart. Another node is looked at again when its time is over.
        pauseMs = Math.min(beatMs * (0.9 + 0.2 * Math.random()), this.#nextExpiryMs);
      } catch (error) {
        this.#connection?.destroy();
        log?.debug({ reason: messageOf(error) }, "a heartbeat got no reply");
        pauseMs = RETRY_MS;
      }
    }
    this.#connection?.destroy();
  }

  /** One heartbeat; before it the node joins again if necessary. */
  async #step(): Promise<void> {
    if (this.#life.begun !== null && this.#lifeline.isCut)
      this.#lose("the database did not respond");
    if (this.#life.begun === null) await this.#rejoin.try(() => this.#beginAgain());
    await this.#beat(await this.#reach());
  }

  async #beginAgain(): Promise<void> {
    const connection = await this.#parts.dialer.reach(ENDER);
    try {
      // After an outage of PostgreSQL many nodes join again at the same time, and stripes exist for one incarnation of
      // each.
      await endExpired(connection, { now: this.#ender.also, expired: [] });
      await this.#begin(connection);
    } finally {
      await connection.close();
    }
    this.#tell();
  }

  async #begin(connection: Connection): Promise<void> {
    const { name, kind, log } = this.#parts;
    const who = { ...name, kind, liveMs: this.#liveMs };
    const { nodeSeq, stripe, lastSeq, reading } = await join(connection, who);
    const begun = this.#lifeline.begin();
    const answer = await this.#ask(connection, nodeSeq);
    this.clock.learn(answer.sample);
    this.clock.anchorUptime(reading);
    this.#lifeline.hold(begun);
    const seqs = new SeqSource(() => this.clock.now(), stripe / WRITERS, lastSeq);
    this.self = String(nodeSeq);
    this.#members = membersOf(answer);
    const life: NodeLife = {
      nodeSeq,
      stripes: [stripe, stripe + 1],
      lastCommits: new Map(),
      nextSeq: () => seqs.next(),
    };
    this.#life.begun = life;
    this.#life.resolve(life);
    this.#armFence();
    log?.debug({ node: this.self }, "joined the nodes of the database");
  }

  #ask(connection: Connection, nodeSeq: number): Promise<BeatAnswer> {
    const facts = this.#facts();
    // While it sends, its places are taken.
    const isLeaving = this.#roles.isResigning && (facts?.sending ?? 0) === 0;
    const factsText = facts === null && !isLeaving ? null : JSON.stringify({ ...facts, isLeaving });
    return beat(connection, { nodeSeq, liveMs: this.#liveMs, factsText }, this.#parts.clock);
  }

  /** The connection of the heartbeats, which nothing else can hold up. */
  async #reach(): Promise<Connection> {
    if (this.#connection !== null && !this.#connection.lost.aborted) return this.#connection;
    const { dialer, beatMs } = this.#parts;
    const deadlineMs = 1.5 * beatMs;
    this.#connection = await dialer.reach({ deadlineMs, statementMs: 0, lockMs: 0, mayLose: true });
    await this.#look(this.#connection);
    return this.#connection;
  }

  /** Reports to the operator which server was reached, and whether it has this node's commits. */
  async #look(connection: Connection): Promise<void> {
    const { begun } = this.#life;
    if (begun !== null && (await hasLostCommits(connection, begun))) this.hasLost(begun);
    const timeline = await findTimeline(connection);
    if (timeline === null) return;
    const { log } = this.#parts;
    if (this.#timeline !== null && timeline !== this.#timeline) {
      log?.warn({ before: this.#timeline, timeline }, "a standby of the database was promoted");
    }
    this.#timeline = timeline;
  }

  async #beat(connection: Connection): Promise<void> {
    const life = this.#life.begun;
    if (life === null) return;
    const begun = this.#lifeline.begin();
    const answer = await this.#ask(connection, life.nodeSeq);
    this.clock.learn(answer.sample);
    // A part that was notified of the lost membership may have given its work up.
    if (!answer.isAlive || this.#lifeline.isCut) {
      this.#lose(
        answer.isAlive ? "the database responded late" : "the other nodes considered it dead",
      );
      return;
    }
    if (this.isOver(life)) return;
    this.#lifeline.hold(begun);
    this.#armFence();
    // Times from before the clock was set are meaningless, and the other nodes write new ones at their next heartbeats.
    const isClockTrusted = this.clock.steadyMs > this.#liveMs;
    const before = String([this.#members, this.#roles.held]);
    const members = membersOf(answer);
    if (this.#parts.kind === "node") {
      const view = {
        roles: answer.roles,
        self: life.nodeSeq,
        // A node that is leaving is no longer among the members.
        members: new Set([...members, this.self]).size,
        hasGrown: members.some((each) => !this.#members.includes(each)),
        isClockTrusted,
        now: answer.sample.shown,
        patienceMs: 2.5 * this.#parts.beatMs,
      };
      await this.#roles.renew(connection, view, this.#liveMs);
      if (this.isOver(life)) {
        this.#roles.held = [];
        return;
      }
    }
    this.#members = members;
    this.#nextExpiryMs = nextExpiryMs(answer);
    this.#ender.look(answer, isClockTrusted);
    if (before !== String([members, this.#roles.held])) this.#tell();
  }

  /** This life is over: other nodes take its work up. */
  #lose(reason: string): void {
    const { begun } = this.#life;
    if (begun === null || this.#closing.signal.aborted) return;
    this.#parts.log?.warn(
      { node: this.self, reason },
      "this node is not a member of the cluster until it joins again",
    );
    this.#ender.endAlso(begun.nodeSeq);
    this.#life = newAwaitedLife();
    this.#lifeline.cut();
    this.#roles.held = [];
    this.#wake();
    this.#tell();
  }

  #armFence(): void {
    this.#fenceTimer?.cancel();
    const delayMs = Math.max(1, this.#lifeline.leftMs);
    this.#fenceTimer = this.#parts.clock.setTimer(delayMs, () => {
      if (this.#lifeline.isCut) this.#lose("the database did not respond");
      else this.#armFence();
    });
  }

  #tell(): void {
    if (this.#closing.signal.aborted) return;
    for (const listener of this.#listeners) listener();
  }

  get #liveMs(): number {
    return BEATS_TO_LIVE * this.#parts.beatMs;
  }

  #wake(): void {
    this.#pause.abort();
  }

  async #pauseFor(ms: number): Promise<void> {
    await wait(ms, { clock: this.#parts.clock, signal: this.#pause.signal });
    this.#pause = new AbortController();
  }
}
