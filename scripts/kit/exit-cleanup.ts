const cleanUps = new Set<() => void>();

/**
 * Has `clean` called when this process ends, however it ends short of SIGKILL. What it does must be
 * synchronous. Answers a function that calls it now instead.
 */
export function cleanAtExit(clean: () => void): () => void {
  process.off("exit", cleanAll).once("exit", cleanAll);
  cleanUps.add(clean);
  return () => {
    cleanUps.delete(clean);
    clean();
  };
}

/** Makes SIGINT and SIGTERM end this process through what {@link cleanAtExit} registered. */
export function exitOnSignals(): void {
  process.once("SIGINT", () => process.exit(130));
  process.once("SIGTERM", () => process.exit(143));
}

function cleanAll(): void {
  // The newest first: a folder is made before the processes that work in it.
  for (const clean of [...cleanUps].toReversed()) clean();
}
