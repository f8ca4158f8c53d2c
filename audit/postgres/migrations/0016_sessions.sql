-- Who is signed in (S78).

-- A session is a person's, as a provider named them when they signed in. Times are this
-- server's, in Unix milliseconds. It is no part of the record: decisions say who made them.
CREATE TABLE sessions (
    id           uuid   PRIMARY KEY,
    token_hash   bytea  NOT NULL UNIQUE, -- SHA-256 of what the cookie has
    issuer       text   NOT NULL,
    subject      text   NOT NULL,
    provider_sid text   NOT NULL, -- the provider's session; empty when it names none
    principal    text   NOT NULL,
    name         text   NOT NULL,
    email        text   NOT NULL,
    grants       text   NOT NULL, -- JSON
    idle_ms      bigint NOT NULL, -- without a request, and it is over
    created_at   bigint NOT NULL,
    last_used_at bigint NOT NULL, -- up to a minute behind
    expires_at   bigint NOT NULL,
    ended_at     bigint
);

-- Who had sessions that may ask for checks: kept for grants (S91), for as long as checks say who asked.
CREATE TABLE session_askers (
    principal text   NOT NULL,
    owner     text   NOT NULL,
    since     bigint NOT NULL,
    PRIMARY KEY (principal, owner)
);

-- Logout tokens that came: none counts twice. A session that is stored after one may be one that
-- it should have ended.
CREATE TABLE session_logouts (
    token        bytea  PRIMARY KEY, -- SHA-256 of its identifier
    request      uuid   NOT NULL,    -- that brought it, made then
    issuer       text   NOT NULL,
    subject      text   NOT NULL,    -- empty when the token names none
    provider_sid text   NOT NULL,    -- empty when the token names none
    at           bigint NOT NULL     -- when it came, by this server's clock
);
