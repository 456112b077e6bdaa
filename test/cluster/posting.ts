/** Posts again and again, one at a time, until it is stopped. */
export function keepPosting(url: string, key: string) {
  const acknowledged: string[] = [];
  const faults: string[] = [];
  let refused = 0;
  let slowestMs = 0;
  let isOver = false;
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const body = JSON.stringify([{ type: "echo", input: 1 }]);
  const lane = async (): Promise<void> => {
    while (!isOver) {
      const askedAt = performance.now();
      const text = await answerOf(url, { headers, body });
      slowestMs = Math.max(slowestMs, performance.now() - askedAt);
      // The shape is the contract's; what is not there fails below.
      const { status_code: code, tasks } = JSON.parse(text) as {
        readonly status_code: number;
        readonly tasks?: readonly { readonly id: string }[];
      };
      if (code === 50300) refused++;
      else if (code === 20000 && tasks?.[0] !== undefined) acknowledged.push(tasks[0].id);
      else faults.push(text);
    }
  };
  const done = Promise.all([lane(), lane(), lane()]);
  return {
    acknowledged,
    faults,
    get refused() {
      return refused;
    },
    get slowestMs() {
      return slowestMs;
    },
    stop: async () => {
      isOver = true;
      await done;
    },
  };
}

/**
 * The faults that are answers. A daemon that stops may break off what the balancer has just given it, where the machine is
 * so busy that the balancer learns of the stop after more than 3 s.
 */
export function notBroken(faults: readonly string[]): readonly string[] {
  return faults.filter((text) => !text.startsWith('{"broken"'));
}

/** The text of an answer; a JSON text of its own where there was none. */
async function answerOf(
  url: string,
  { headers, body }: { readonly headers: Record<string, string>; readonly body: string },
): Promise<string> {
  try {
    const answer = await fetch(`${url}/v1/tasks/task_post`, { method: "POST", headers, body });
    return await answer.text();
  } catch (error) {
    return JSON.stringify({ broken: `${String(error)}: ${String((error as Error).cause)}` });
  }
}
