import { z } from "zod";

const outcome = z.enum(["ok", "lost", "cancelled"]);

/** The outcome of a lease in an answer. */
export type Outcome = z.infer<typeof outcome>;

const what = z.enum(["heartbeat", "complete", "fail", "release"]);

/** The requests of a worker for a lease. */
export type AskKind = z.infer<typeof what>;

const item = z.object({
  id: z.string(),
  leaseId: z.string(),
  /** Of a completion: the result, as JSON text. */
  result: z.string().optional(),
  /** Of a failure. */
  message: z.string().optional(),
  retry: z.boolean().optional(),
});

/** One lease of a request. */
export type AskItem = Readonly<z.infer<typeof item>>;

/**
 * The actions of a worker process, reported before it acts, and their outcomes, reported at once: a killed process
 * has reported every request that can have reached the daemon. Times are epoch milliseconds.
 */
export const workerEvent = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("claiming"),
    number: z.number(),
    at: z.number(),
    types: z.array(z.string()),
  }),
  z.object({
    kind: z.literal("claimed"),
    number: z.number(),
    at: z.number(),
    tasks: z.array(
      z.object({
        id: z.string(),
        type: z.string(),
        leaseId: z.string(),
        expiresAt: z.number(),
        run: z.number(),
      }),
    ),
  }),
  /** The connection broke: whether the daemon handed tasks out is not known. */
  z.object({ kind: z.literal("unclaimed"), number: z.number(), at: z.number() }),
  z.object({
    kind: z.literal("asking"),
    number: z.number(),
    at: z.number(),
    what,
    items: z.array(item),
  }),
  z.object({
    kind: z.literal("answered"),
    number: z.number(),
    at: z.number(),
    outcomes: z.array(outcome),
  }),
  /** The daemon answered in a way that it never must. */
  z.object({ kind: z.literal("fault"), text: z.string() }),
  /** A request that is no request was refused, as it must be. */
  z.object({ kind: z.literal("refused") }),
]);

export type WorkerEvent = Readonly<z.infer<typeof workerEvent>>;

/** The orders of a worker process. */
export const workerOrder = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("work"),
    seed: z.number(),
    token: z.string(),
    types: z.array(z.string()),
    loops: z.number(),
  }),
  /** The daemon's present URL. */
  z.object({ kind: z.literal("url"), url: z.string() }),
  /** From now on every task is completed at once. */
  z.object({ kind: z.literal("honest") }),
]);

export type WorkerOrder = Readonly<z.infer<typeof workerOrder>>;
