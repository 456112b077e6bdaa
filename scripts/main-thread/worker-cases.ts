import { claimedTasks, type LeasedTask } from "../kit/request.ts";
import type { Cases } from "./measure.ts";
import type { World } from "./world.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
const LEASES = 1000;
const BATCH = 100;
// Of 16 MiB, without the JSON around it and a message that is not Latin-1.
const RESULT_BYTES = Math.floor((16 * MIB) / BATCH) - 2400;
const LARGE_INPUTS = 20;

/** The requests of workers. */
export async function workerCases({ owner, worker }: World) {
  const order = (type: string) => ({ types: [type], max: BATCH, wait_seconds: 10 });
  const giveBack = async (text: string): Promise<void> => {
    await worker.done(worker.post("/v1/worker/release", { tasks: claimedTasks(text) }));
  };
  const ended = async (with_: object): Promise<readonly object[]> => {
    await owner.postTasks({ type: "leased" }, BATCH);
    const leases = await worker.claim("leased", BATCH);
    return leases.map((lease) => ({ ...lease, ...with_ }));
  };
  const long = "x".repeat(RESULT_BYTES);
  const failed = { message: "ш".repeat(1000), detail: long, retry: false };
  await owner.postTasks({ type: "batch", input: "x".repeat(10 * KIB) }, BATCH);
  for (let i = 0; i < LARGE_INPUTS; i++) {
    await owner.postTasks({ type: "large", input: "ш".repeat(MIB / 2 - 200) });
  }
  await owner.postTasks({ type: "kept" }, LEASES);
  let kept: readonly LeasedTask[] = await worker.claim("kept", LEASES);
  const progress = { progress: 0.5, note: "ш".repeat(200) };
  return {
    claim: { ask: worker.post("/v1/worker/claim", order("batch")), after: giveBack },
    claimLarge: { ask: worker.post("/v1/worker/claim", order("large")), after: giveBack },
    heartbeat: async () => {
      const leases = kept.map((lease) => ({ ...lease, progress }));
      return worker.post("/v1/worker/heartbeat", { leases });
    },
    complete: {
      pace: "slow",
      ask: async () => {
        return worker.post("/v1/worker/complete", { tasks: await ended({ result: long }) });
      },
    },
    completeDigits: {
      pace: "very slow",
      ask: worker.post("/v1/worker/complete", `{"tasks":[${"1e9,".repeat(4 * MIB - 20)}1]}`),
      status: 400,
    },
    fail: {
      pace: "slow",
      ask: async () => worker.post("/v1/worker/fail", { tasks: await ended(failed) }),
    },
    release: {
      ask: async () => worker.post("/v1/worker/release", { tasks: kept }),
      after: async () => {
        kept = await worker.claim("kept", LEASES);
      },
    },
  } as const satisfies Cases;
}
