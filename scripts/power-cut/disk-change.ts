import type { TracedCall } from "./strace.ts";

/** A position on the time line. */
export type Moment = Pick<TracedCall, "begun" | "over" | "at">;

/** Something that was done to the files of a database; `file` numbers them for good, whatever their names. */
export type DiskChange = NameChange | FileChange | Sync;

/** A change of the folder. */
export type NameChange = Moment &
  (
    | { readonly kind: "made"; readonly name: string; readonly file: number }
    | { readonly kind: "removed"; readonly name: string; readonly file: number }
    | { readonly kind: "renamed"; readonly from: string; readonly name: string }
  );

/** A change of a file's content. */
export type FileChange = Moment & {
  readonly file: number;
  /** Under which name. */
  readonly name: string;
} & (
    | { readonly kind: "written"; readonly offset: number; readonly data: Buffer }
    | { readonly kind: "resized"; readonly size: number }
  );

/** An event that makes all changes before it outlive a power cut: those of a file, or those of the folder. */
export type Sync = Moment &
  (
    | { readonly kind: "synced"; readonly file: number; readonly name: string }
    | { readonly kind: "folder-synced" }
  );
