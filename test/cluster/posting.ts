/** Posts in three lanes, one task at a time, until it is stopped. */
export function keepPosting(url: string, key: string) {
  const acknowledged: string[] = [];
  const faults: string[] = [];
  const seen = { refused: 0, slowestMs: 0 };
  let isOver = false;
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const body = JSON.stringify([{ type: "echo", input: 1 }]);
  const post = async (): Promise<string> => {
    try {
      const init = { method: "POST", headers, body };
      return await (await fetch(`${url}/v1/tasks/task_post`, init)).text();
    } catch (error) {
      return JSON.stringify({ broken: `${String(error)}: ${String((error as Error).cause)}` });
    }
  };
  const lane = async (): Promise<void> => {
    while (!isOver) {
      const begunAt = performance.now();
      const text = await post();
      seen.slowestMs = Math.max(seen.slowestMs, performance.now() - begunAt);
      // A response of another shape becomes a fault below.
      const { status_code: code, tasks } = JSON.parse(text) as {
        readonly status_code: number;
        readonly tasks?: readonly { readonly id: string }[];
      };
      if (code === 50300) seen.refused++;
      else if (code === 20000 && tasks?.[0] !== undefined) acknowledged.push(tasks[0].id);
      else faults.push(text);
    }
  };
  const done = Promise.all([lane(), lane(), lane()]);
  return {
    acknowledged,
    faults,
    seen,
    async stop() {
      isOver = true;
      await done;
    },
  };
}

/**
 * The faults that are responses. A daemon that stops may break off a request if the machine is so busy that the
 * balancer learns of the stop after more than 3 s.
 */
export function notBroken(faults: readonly string[]): readonly string[] {
  return faults.filter((text) => !text.startsWith('{"broken"'));
}
