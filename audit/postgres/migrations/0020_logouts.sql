-- Whom a logout meant, and when it came by this server's clock: a session that is stored after it
-- may be one that it should have ended (S78). Null of those that nodes of the version before took.
ALTER TABLE session_logouts ADD COLUMN issuer text, ADD COLUMN subject text, ADD COLUMN provider_sid text, ADD COLUMN at timestamptz;
