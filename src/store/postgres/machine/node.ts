import type { Clock, Timer } from "../../../domain/clock/clock.ts";
import { wait } from "../../../domain/clock/wait.ts";
import type { Logger } from "../../../domain/log.ts";
import { messageOf } from "../../../domain/message-of.ts";
import type { Cluster, Duty, NodeFacts, NodeSummary } from "../../cluster.ts";
import { StoreError } from "../../store-error.ts";
import type { Connection } from "./connection.ts";
import { DatabaseClock } from "./database-clock.ts";
import type { Dialer } from "./dialer.ts";
import { DUTIES, planDuties } from "./duties.ts";
import {
  beat,
  endExpired,
  holdDuties,
  join,
  leave,
  releaseDuties,
  type BeatAnswer,
  type NodeName,
} from "./heartbeat.ts";
import { Lifeline } from "./lifeline.ts";
import { ENDER, NodeEnder } from "./node-ender.ts";
import { listNodes } from "./node-list.ts";
import { SeqSource } from "./seq.ts";
import { findHistory, type Session } from "./server-state.ts";
import type { Sql } from "./sql.ts";
import type { NodeLife, WriterNode } from "./writer.ts";

/** How many connections of a node write. */
export const WRITERS = 2;

/** Time between heartbeats. */
export const BEAT_MS = 2000;
// A node is taken for dead after five of them, and stops by itself after four: what it began last has then a little
// time to end.
const BEATS_TO_LIVE = 5;
const BEATS_TO_FENCE = 4;

const WRITER: Session = { deadlineMs: 5000, statementMs: 0, lockMs: 4000, mayLose: false };

const LEAVE_MS_MAX = 1500;

export interface NodeParts {
  readonly dialer: Dialer;
  readonly name: NodeName;
  /** `tool` for a process that takes a few steps and ends: the nodes do not count it among them. */
  readonly role: "node" | "tool";
  /** The machine's. */
  readonly clock: Clock;
  readonly beatMs: number;
  readonly log: Logger | undefined;
}

/** A life that is awaited, or has begun. */
interface AwaitedLife extends PromiseWithResolvers<NodeLife> {
  begun: NodeLife | null;
}

/** This daemon as one of the nodes of a database. */
export class ServerNode implements WriterNode, Cluster {
  readonly isShared = true;
  readonly clock: DatabaseClock;
  readonly #parts: NodeParts;
  readonly #lifeline: Lifeline;
  readonly #ender: NodeEnder;
  readonly #listeners = new Set<() => void>();
  readonly #closing = new AbortController();
  #life = newAwaitedLife();
  #self = "";
  #members: readonly string[] = [];
  #duties: readonly Duty[] = [];
  #facts: () => NodeFacts | null = () => null;
  #isResigning = false;
  #connection: Connection | null = null;
  #timeline: string | null = null;
  #fenceTimer: Timer | null = null;
  /** In what time another node will be taken for dead unless it is heard. */
  #nextExpiryMs = Infinity;
  /** Ends the pause before the next heartbeat. */
  #pause = new AbortController();
  #loop: Promise<void> = Promise.resolve();

  constructor(parts: NodeParts) {
    this.#parts = parts;
    this.clock = new DatabaseClock(parts.clock);
    this.#lifeline = new Lifeline(parts.clock, BEATS_TO_FENCE * parts.beatMs);
    this.#ender = new NodeEnder({
      ...parts,
      ended: () => this.#tell(),
      done: () => this.#wake(),
    });
  }

  /** Joins the others. Rejects when the server cannot be reached or cannot be used. */
  async open(): Promise<void> {
    const connection = await this.#parts.dialer.dial(ENDER);
    await endExpired(connection, []);
    await this.#begin(connection);
    await connection.close();
    await this.#step();
    this.#loop = this.#run();
  }

  get self(): string {
    return this.#self;
  }

  membership(): readonly string[] {
    return this.#members;
  }

  isMember(): boolean {
    return this.#life.begun !== null && !this.#lifeline.isCut;
  }

  holds(duty: Duty): boolean {
    return this.#duties.includes(duty) && this.isMember();
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  resign(): void {
    this.#isResigning = true;
    this.#wake();
  }

  tellFacts(source: () => NodeFacts): void {
    this.#facts = source;
  }

  /** Lists the nodes; of this one, what it tells now. */
  async list(sql: Sql): Promise<readonly NodeSummary[]> {
    const nodes = await listNodes(sql, { now: this.clock.now(), liveMs: this.#liveMs });
    return nodes.map((node) => (node.id === this.#self ? { ...node, facts: this.#facts() } : node));
  }

  /** How long the server has not answered a heartbeat. */
  get silentMs(): number {
    return this.#lifeline.silentMs;
  }

  life(): Promise<NodeLife> {
    return this.#life.promise;
  }

  isOver(life: NodeLife): boolean {
    return this.#life.begun !== life;
  }

  fenced(life: NodeLife): void {
    if (!this.isOver(life)) this.#lose("its stripes were taken away");
  }

  connect(): Promise<Connection> {
    return this.#parts.dialer.reach(WRITER);
  }

  /** Leaves the others: what this node was doing is theirs from now on. Gives up soon when the server is gone. */
  async leave(): Promise<void> {
    this.#closing.abort();
    this.#fenceTimer?.cancel();
    this.#wake();
    const { clock, dialer } = this.#parts;
    const { begun } = this.#life;
    const left = begun === null ? Promise.resolve() : this.#leave(begun).catch(() => {});
    const timeout = new AbortController();
    await Promise.race([left, wait(LEAVE_MS_MAX, { clock, signal: timeout.signal })]);
    timeout.abort();
    this.shut();
    dialer.close();
    await this.#loop;
  }

  /** Gives up whoever waits for a life. */
  shut(): void {
    this.#life.promise.catch(() => {});
    this.#life.reject(new StoreError("closed", "the store is closed"));
  }

  async #leave({ nodeSeq }: NodeLife): Promise<void> {
    const connection = await this.#parts.dialer.dial(WRITER);
    await leave(connection, nodeSeq);
    await connection.close();
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await this.#untilNext();
      if (signal.aborted) break;
      try {
        await this.#step();
      } catch (error) {
        this.#connection?.destroy();
        if (signal.aborted) break;
        this.#parts.log?.debug({ reason: messageOf(error) }, "a heartbeat was not answered");
      }
    }
    this.#connection?.destroy();
  }

  /** One heartbeat; before it the node joins anew when it has to. */
  async #step(): Promise<void> {
    if (this.#life.begun !== null && this.#lifeline.isCut)
      this.#lose("the database did not answer");
    if (this.#life.begun === null) await this.#beginAgain();
    await this.#beat(await this.#reach());
  }

  async #beginAgain(): Promise<void> {
    const connection = await this.#parts.dialer.reach(WRITER);
    try {
      await this.#begin(connection);
    } finally {
      await connection.close();
    }
    this.#tell();
  }

  async #begin(connection: Connection): Promise<void> {
    const { name, role, log } = this.#parts;
    const begun = this.#lifeline.begin();
    const joined = await join(connection, { ...name, role, liveMs: this.#liveMs });
    const { nodeSeq, stripe, lastSeq, reading } = joined;
    const answer = await this.#ask(connection, nodeSeq);
    this.clock.learn(answer.sample);
    this.clock.anchorUptime(reading);
    this.#lifeline.hold(begun);
    const seqs = new SeqSource(() => this.clock.now(), stripe / WRITERS, lastSeq);
    this.#self = String(nodeSeq);
    this.#members = membersOf(answer);
    const life: NodeLife = {
      nodeSeq,
      stripes: [stripe, stripe + 1],
      nextSeq: () => seqs.next(),
    };
    this.#life.begun = life;
    this.#life.resolve(life);
    this.#armFence();
    log?.debug({ node: this.#self }, "joined the nodes of the database");
  }

  #ask(connection: Connection, nodeSeq: number): Promise<BeatAnswer> {
    const facts = this.#facts();
    const factsText = facts === null ? null : JSON.stringify(facts);
    const { clock } = this.#parts;
    return beat(connection, { nodeSeq, liveMs: this.#liveMs, factsText }, () => clock.monotonic());
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

  /** Tells the operator which server was reached. */
  async #look(connection: Connection): Promise<void> {
    const history = await findHistory(connection);
    if (history === null) return;
    const { timeline, mayLoseAtFailover } = history;
    const { log } = this.#parts;
    if (this.#timeline !== null && timeline !== this.#timeline) {
      log?.warn({ before: this.#timeline, timeline }, "a standby of the database was promoted");
    } else if (this.#timeline === null && mayLoseAtFailover) {
      log?.warn({}, "no commit waits for a standby: a failover loses what was acknowledged last");
    }
    this.#timeline = timeline;
  }

  async #beat(connection: Connection): Promise<void> {
    const life = this.#life.begun;
    if (life === null) return;
    const begun = this.#lifeline.begin();
    const answer = await this.#ask(connection, life.nodeSeq);
    this.clock.learn(answer.sample);
    // Whoever has been told that this is no member may have given its work up.
    if (!answer.isAlive || this.#lifeline.isCut) {
      this.#lose(answer.isAlive ? "the database answered late" : "the others took it for dead");
      return;
    }
    if (this.isOver(life)) return;
    this.#lifeline.hold(begun);
    this.#armFence();
    const members = membersOf(answer);
    const duties = await this.#holdDuties(connection, { life, answer, members });
    const isChange = !isSame(members, this.#members) || !isSame(duties, this.#duties);
    this.#members = members;
    this.#duties = duties;
    this.#nextExpiryMs = nextExpiryMs(answer);
    this.#ender.look(answer);
    if (isChange) this.#tell();
  }

  async #holdDuties(
    connection: Connection,
    { life: { nodeSeq }, answer, members }: Seen,
  ): Promise<readonly Duty[]> {
    if (this.#parts.role === "tool") return [];
    const plan = planDuties({
      duties: answer.duties,
      self: nodeSeq,
      members: members.length,
      hasGrown: members.some((each) => !this.#members.includes(each)),
      isResigning: this.#isResigning,
      now: answer.sample.shown,
      patienceMs: 2.5 * this.#parts.beatMs,
    });
    const [held] = await Promise.all([
      holdDuties(connection, { nodeSeq, names: plan.hold, ms: this.#liveMs }),
      releaseDuties(connection, { nodeSeq, names: plan.release }),
    ]);
    return DUTIES.filter((duty) => held.includes(duty));
  }

  /** This life is over: what it was doing is somebody else's. */
  #lose(reason: string): void {
    const { begun } = this.#life;
    if (begun === null || this.#closing.signal.aborted) return;
    this.#parts.log?.warn(
      { node: this.#self, reason },
      "this node is no member until it joins again",
    );
    this.#ender.endAlso(begun.nodeSeq);
    this.#life = newAwaitedLife();
    this.#lifeline.cut();
    this.#duties = [];
    this.#wake();
    this.#tell();
  }

  #armFence(): void {
    this.#fenceTimer?.cancel();
    const delayMs = Math.max(1, this.#lifeline.leftMs);
    this.#fenceTimer = this.#parts.clock.setTimer(delayMs, () => {
      if (this.#lifeline.isCut) this.#lose("the database did not answer");
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

  /** Waits for the time of the next heartbeat; nodes that started together drift apart. */
  async #untilNext(): Promise<void> {
    const { beatMs, clock } = this.#parts;
    const jitterMs = beatMs * (0.9 + 0.2 * Math.random());
    // Nothing is lost by asking often while nobody answers: each question waits for a connection.
    const ms = this.#life.begun === null ? beatMs / 20 : Math.min(jitterMs, this.#nextExpiryMs);
    await wait(ms, { clock, signal: this.#pause.signal });
    this.#pause = new AbortController();
  }
}

interface Seen {
  readonly life: NodeLife;
  readonly answer: BeatAnswer;
  readonly members: readonly string[];
}

function newAwaitedLife(): AwaitedLife {
  return { ...Promise.withResolvers<NodeLife>(), begun: null };
}

function membersOf({ nodes }: BeatAnswer): readonly string[] {
  return nodes.filter(({ isTool }) => !isTool).map(({ seq }) => String(seq));
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((each, i) => each === b[i]);
}

function nextExpiryMs({ nodes, sample: { shown } }: BeatAnswer): number {
  const inMs = nodes.map(({ expiresAt }) => expiresAt - shown).filter((ms) => ms >= 0);
  // It has to be over by then.
  return Math.min(Infinity, ...inMs) + 20;
}
