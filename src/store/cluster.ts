import type { Clock } from "../domain/clock/clock.ts";
import type { DatabaseHealth, FailureCount } from "../domain/stats/health.ts";
import type { LaneRef } from "./delivery.ts";
import { StoreError } from "./store-error.ts";

/** Also a store that one node has for itself has a cluster: nothing above it asks how many nodes there are. */
export interface ClusterStore {
  readonly cluster: Cluster;
  /** Lists the nodes that are alive and those that ended within the last day, the newest first. */
  listNodes(): Promise<readonly NodeSummary[]>;
  /** How the server is that keeps the data; null where a file does. */
  findDatabaseHealth(): Promise<DatabaseHealth | null>;
}

/** The nodes that share a store, as one of them sees them. */
export interface Cluster {
  /** The id of this node: a new one at each start, and when it joined again. */
  readonly self: string;
  /**
   * True where other nodes may share the store, now or later: then what they did has to be looked for. It never
   * changes.
   */
  readonly isShared: boolean;
  /**
   * The nodes that share the work, in the same order at each node: all living nodes, including this one, except nodes
   * that have resigned and send nothing. Cheap.
   */
  membership(): readonly string[];
  /**
   * False once the other nodes may consider this node dead: from 8 s after the start of its last good heartbeat until
   * it has joined again. Meanwhile it starts no run and sends nothing, and other nodes own its runs. Computed from the
   * monotonic clock at each call, so the first call after a pause of the process returns the truth. Cheap: it is called
   * before each start of a run and of an attempt.
   */
  isMember(): boolean;
  /**
   * Calls back after the members or the roles of this node have changed, and after this node was lost as a member or has
   * joined again with another `self`. Also calls back after nodes have ended, once their work can be taken up as
   * the work of "ended nodes". Returns a function that stops the calls.
   */
  onChange(listener: () => void): () => void;
  /**
   * True while this role is this node's. It only saves work: for a moment two nodes may hold the same role, or none, so
   * doing it twice must have the same result as doing it once. False while this node is not a member.
   */
  holds(role: NodeRole): boolean;
  /**
   * Gives this node's roles to others and takes no more: it begins nothing from now on. Its share of what may be sent
   * goes to them as soon as its facts say that it sends nothing. It stays a member until the store is closed, because
   * what it has under way goes on. A node that is alone keeps them.
   */
  resign(): void;
  /**
   * Ends this life of the node because it cannot go on. Other nodes take up its work. The node joins again after a pause,
   * which grows if another life ends so soon. Does nothing if the store is not shared.
   */
  rejoin(reason: string): void;
  /**
   * Sets the function that returns this node's facts. It is called at every heartbeat, so other nodes have the facts
   * within seconds. It must be quick and not throw.
   */
  tellFacts(source: () => NodeFacts): void;
  /**
   * The clock that every node goes by. In a cluster, all nodes have the same boot id. A node's uptime starts at the
   * clock's time when the node joins, and then follows the machine's uptime. So a node can distinguish a clock that was
   * set from a machine that slept, and compare readings with other nodes.
   */
  readonly clock: Clock;
}

/** A role is work that one node does for all nodes. */
export const NODE_ROLES = [
  "release",
  "reap",
  "orders",
  "sweep",
  "sample",
  "fold",
  "clock",
] as const;
export type NodeRole = (typeof NODE_ROLES)[number];

/** The facts that a node reports about itself. They are kept as JSON. */
export interface NodeFacts {
  /** The URL that it listens on; null while it does not. */
  readonly url: string | null;
  /** How its own runs went in the last minutes. */
  readonly runs: FailureCount;
  /** The hosts that it sent to in the last minutes. */
  readonly receivers: FailureCount;
  /** The types of which it runs something now, and how much. */
  readonly running: readonly { readonly type: string; readonly runs: number }[];
  /** How many attempts it has under way. */
  readonly sending: number;
}

/** A node as the operator is shown it. */
export interface NodeSummary {
  /** As in {@link Cluster.membership}. */
  readonly id: string;
  /** The configured name, or else the machine's name; other nodes may have the same name. */
  readonly name: string;
  /** The version of its program. */
  readonly version: string;
  readonly joinedAt: number;
  /** When its last heartbeat arrived. */
  readonly lastSeenAt: number;
  /** When it left or was declared dead; null while it is alive. */
  readonly endedAt: number | null;
  /** True if it ended without leaving: it was killed, or was cut off from the store. */
  readonly isLost: boolean;
  /** The roles that the node holds. */
  readonly roles: readonly NodeRole[];
  /** Null if it has reported nothing yet. */
  readonly facts: NodeFacts | null;
}

/**
 * Work that is left of an earlier process of this node, of ended nodes, or of this node before it joined again. A store
 * of one node knows no others. Several nodes may take over the work of ended nodes concurrently: each piece is taken
 * over once.
 */
export interface LeftWork {
  readonly of: "earlier life" | "ended nodes";
}

/** Throws a temporary error while this node is not a member, because other nodes may have taken over its work. */
export function requireMember(cluster: Pick<Cluster, "isMember">): void {
  if (!cluster.isMember())
    throw new StoreError(
      "unreachable",
      "this node is not a member of the cluster until it joins again",
    );
}

/** True if other nodes may have taken over what this node began in this incarnation (its `self` then). */
export function isLifeOver(life: string, cluster: Pick<Cluster, "self" | "isMember">): boolean {
  return cluster.self !== life || !cluster.isMember();
}

/** Reports changes to listeners. */
export interface ChangeStore {
  /**
   * Notifies the listener of the changes of each commit of this process, soon after the commit. Returns a function that
   * stops it. Without a listener no changes are collected. Changes of other nodes arrive late, twice or never. A caller
   * that must not miss a change also polls the store once a second.
   */
  watch(listener: ChangeListener): () => void;
}

/** Receives what changed. Must not throw. */
export type ChangeListener = (changes: Changes) => void;

/**
 * Everything that changed, each item once. A node's own changes set only the accounts, because its steps return the
 * rest. The other fields are changes of other nodes. In a store of one node those are empty.
 */
export interface Changes {
  /** Accounts whose tasks or deliveries changed. */
  readonly accounts: readonly number[];
  /** Types that another node has queued a task of. */
  readonly types: readonly string[];
  /** Lanes that have an attempt due because of what another node did. */
  readonly lanes: readonly LaneRef[];
  /** Tasks, by id, that ended, were cancelled or were erased at another node. */
  readonly ended: readonly string[];
}
