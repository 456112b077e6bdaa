import type { BoundName } from "./bounds.ts";
import type { Case, Cases } from "./measure.ts";
import { operatorCases } from "./operator-cases.ts";
import { postCases } from "./post-cases.ts";
import { readCases } from "./read-cases.ts";
import { workerCases } from "./worker-cases.ts";
import { untilNone, type World } from "./world.ts";

/** A case for each row of the table. */
export async function prepareCases(world: World): Promise<Readonly<Record<BoundName, Case>>> {
  const cases: Readonly<Record<BoundName, Cases[string]>> = {
    ...(await readCases(world)),
    ...(await postCases(world)),
    ...(await workerCases(world)),
    ...(await operatorCases(world)),
    ...runCases(world),
  };
  const whole = Object.entries(cases).map(([name, each]) => {
    return [name, "ask" in each ? each : { ask: each }];
  });
  // The names are those of the cases: entries() only forgets it.
  return Object.fromEntries(whole) as Record<BoundName, Case>;
}

const UNENDED = "tasks WHERE state IN ('queued', 'running') AND type =";

/** Work without a request, except for the one that begins it. */
function runCases({ owner, view, peer, ids }: World) {
  const ended = (type: string) => async (): Promise<void> =>
    untilNone(view, `${UNENDED} '${type}'`);
  const post = (task: object, count = 1) =>
    owner.post(
      "/v1/tasks/task_post",
      Array.from({ length: count }, () => task),
    );
  const input = "x".repeat(10 * 1024);
  return {
    runEcho: { ask: post({ type: "echo", input }, 100), done: ended("echo") },
    runCommand: { ask: post({ type: "ascii" }), done: ended("ascii") },
    runService: { ask: post({ type: "service" }), done: ended("service") },
    postback: {
      ask: owner.post(`/v1/tasks/redeliver/${ids.ascii}`, {}),
      done: () => peer.nextWebhook(),
    },
  } as const satisfies Cases;
}
