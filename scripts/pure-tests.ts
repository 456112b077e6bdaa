/**
 * Folders of tests whose files share one process, `test/pure.test.ts`: they start nothing and leave nothing in it, and
 * starting a process for each of sixty files took three times as long as their tests.
 */
export const PURE_FOLDERS: readonly string[] = ["config", "domain", "engine"];
