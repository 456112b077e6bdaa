import type { DashboardFile } from "../src/assets.ts";

/** The dashboard in a bundle: the build puts its files in (`packedDashboard` in `scripts/bundle.ts`). */

declare const POSTBACKD_DASHBOARD: readonly PackedFile[];

/** A file of the dashboard, its bytes in Base64. */
type PackedFile = Pick<DashboardFile, "path" | "type" | "isImmutable"> &
  Readonly<Record<"body", string>> &
  Readonly<Record<"gzip" | "brotli", string | null>>;

let unpacked: readonly DashboardFile[] | null = null;

export function dashboardFiles(): readonly DashboardFile[] {
  unpacked ??= POSTBACKD_DASHBOARD.map(({ body, gzip, brotli, ...file }) => ({
    ...file,
    body: Buffer.from(body, "base64"),
    gzip: bytesOrNull(gzip),
    brotli: bytesOrNull(brotli),
  }));
  return unpacked;
}

function bytesOrNull(text: string | null): Uint8Array | null {
  return text === null ? null : Buffer.from(text, "base64");
}
