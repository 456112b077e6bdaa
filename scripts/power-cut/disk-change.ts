import type { TracedCall } from "./strace.ts";

/** A position on the time line. */
export type Moment = Pick<TracedCall, "begun" | "over" | "at">;

/** Something that was done to the files of a database; `file` numbers them for good, whatever their names. */
export type DiskChange = NameChange | FileChange | Sync;

interface OfFile extends Moment {
  readonly file: number;
  /** Under which name. */
  readonly name: string;
}

/** A change of the folder. */
export type NameChange = OfFile & { readonly kind: "made" | "removed" };

/** A change of a file's content. */
export type FileChange = OfFile &
  (
    | { readonly kind: "written"; readonly offset: number; readonly data: Buffer }
    | { readonly kind: "resized"; readonly size: number }
  );

/** An event that makes all changes before it outlive a power cut: those of a file, or those of the folder. */
export type Sync =
  | (OfFile & { readonly kind: "synced" })
  | (Moment & { readonly kind: "folder-synced" });
