import { createDaemonFile, type DaemonFile, type DaemonPlace } from "../kit/daemon-file.ts";
import { createWorker } from "../kit/daemon-process.ts";

/** The type whose tasks workers claim here. */
export const LEASED = "leased";

/** The file of a daemon with the type {@link LEASED}, and the token of a worker for it. */
export interface WorkerFile extends DaemonFile {
  readonly token: string;
}

/** Makes the file, with one account and one worker. */
export async function createWorkerFile(place: DaemonPlace): Promise<WorkerFile> {
  const more = `\n[types.${LEASED}]\nrunner = "worker"\nlease = "30s"\n`;
  const file = await createDaemonFile(place, { more });
  const token = await createWorker({ name: "bench", types: [LEASED] }, file);
  return { ...file, token };
}
