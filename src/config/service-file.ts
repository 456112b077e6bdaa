/** Where the packages and `postbackd service install` put the configuration of this machine's service. */
export const SERVICE_CONFIG_FILE = "/etc/postbackd/postbackd.toml";
