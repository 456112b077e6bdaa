import type { Runner } from "./runner.ts";

/** The built-in runner whose result is the input, character by character (contract §6). */
export function createEchoRunner(options: { readonly concurrency: number }): Runner {
  return {
    concurrency: options.concurrency,
    run: async (request, { signal }) =>
      signal.aborted ? { kind: "aborted" } : { kind: "completed", resultText: request.inputText },
  };
}
