import type { Runner, RunOptions, RunOutcome, RunRequest } from "../../src/run/runner.ts";

/** Runs one task, by default without input. */
export function runOnce(
  runner: Runner,
  overrides: Partial<RunRequest & RunOptions> = {},
): Promise<RunOutcome> {
  const { id = "t-1", type = "test", tag = null, marketplace = null } = overrides;
  const { inputText = "null", signal = new AbortController().signal } = overrides;
  const { report = () => {}, trace = null } = overrides;
  const request = { id, type, tag, marketplace, inputText, trace };
  return runner.run(request, { signal, report });
}

/** The outcome of a completed run. */
export const completed = (resultText: string): RunOutcome => ({ kind: "completed", resultText });
