import type { Case } from "./cases.ts";
import { untilNone, type World } from "./world.ts";

const UNENDED = "tasks WHERE state IN ('queued', 'running') AND type =";

/** Work without a request, except for the one that begins it. */
export function runCases({ owner, view, peer, ids }: World) {
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
  } as const satisfies Record<string, Case>;
}
