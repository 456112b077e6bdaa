/** The platforms that an executable is made for. */
export const PLATFORMS = ["linux-x64", "linux-arm64"] as const;
export type Platform = (typeof PLATFORMS)[number];

/** The platform this runs on. Throws where no executable is made for it. */
export function hostPlatform(): Platform {
  const host = `${process.platform}-${process.arch}`;
  const known = PLATFORMS.find((name) => name === host);
  if (known !== undefined) return known;
  throw new Error(`no executable is made for ${host}: only for ${PLATFORMS.join(" and ")}`);
}
