int adjoin_nothing;
